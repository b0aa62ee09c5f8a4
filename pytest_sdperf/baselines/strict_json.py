"""JSON of files that people edit and merge: a name that occurs twice would hide what stood there before."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parse(text: str) -> Any:
    """Parse JSON, strictly: no name twice in one object, no NaN.

    Raises:
        ValueError: It is not valid; the message says what is wrong, and where.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs twice in one object")
    return data


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that a measurement can have")
