"""JSON files that people edit, merge and send around, read in one way: strictly, and with words that say what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar

_DEEPEST = 64
# A product of three such whole numbers is still less than the largest float.
_DIGITS = 100
_SHOWN = 20
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_LARGE = re.compile(rf"[eE]\+?\d{{3}}|\d{{{_DIGITS + 1}}}")
_PLAIN = (float, int, type(None))

T = TypeVar("T")


def text_of(path: Path) -> str:
    """Read a text file. A byte order mark of UTF-8, which Notepad writes, is passed over.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not UTF-8; the message says what it is, and what to do.
    """
    content = path.read_bytes()
    encoding = json.detect_encoding(content[:4])
    if not encoding.startswith("utf-8"):
        raise ValueError(
            f"it is text in {encoding[:6].upper()}, as Windows PowerShell 5.1 writes it with `>`; save it as UTF-8"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def read(path: Path) -> Any:
    """Read a JSON file: no name twice in one object, no number that is not finite, nothing that cannot be printed.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not valid; the message says what is wrong, and where.
    """
    return parse(text_of(path))


def parse(text: str) -> Any:
    """Parse JSON as `read` does.

    Raises:
        ValueError: It is not valid; the message says what is wrong, and where.
    """
    # A call per number takes longer than all the rest, and hardly any file needs it.
    suspicious = _LARGE.search(text) is not None
    hooks: dict[str, Any] = {"parse_float": _float, "parse_int": _integer} if suspicious else {}
    try:
        data = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_Unusable, **hooks)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    found = _problem(data)
    if found is not None:
        place, what = found
        raise ValueError(f"{what} - at `${place}`")
    return data


_TOO_DEEP = f"more than {_DEEPEST} objects and lists inside each other"


class _Unusable(str):
    """The text of a number that nothing can be computed with."""

    __slots__ = ()


def _float(text: str) -> float | _Unusable:
    value = float(text)
    return value if abs(value) < float("inf") else _Unusable(text)


def _integer(text: str) -> int | _Unusable:
    return int(text) if len(text) <= _DIGITS else _Unusable(text)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs twice in one object")
    return data


def _problem(value: Any, depth: int = 0) -> tuple[str, str] | None:
    """Return where a value has something that cannot be used, and what; None where it has not."""
    if isinstance(value, _Unusable):
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        return "", f"{shown} is not a number that a measurement can have"
    if isinstance(value, str):
        return None if _is_whole(value) else ("", f"{value!a} holds half of a character")
    if not isinstance(value, (dict, list)):
        return None
    if depth == _DEEPEST:
        return "", _TOO_DEEP
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if type(item) in _PLAIN and isinstance(name, int):
            continue  # by far the most
        found = _problem(item, depth + 1) or _problem(name)
        if found is not None:
            return f"{step(name)}{found[0]}", found[1]
    return None


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


def whole(text: str) -> str:
    """Return a text that a file can hold and `read` reads: of a path or an argument that is no UTF-8, what is not."""
    if _is_whole(text):
        return text
    return _HALF.sub("\ufffd", text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def step(name: str | int) -> str:
    """Return how a place inside an object or a list is written, behind where that is: `.name`, `["a b"]`, `[0]`."""
    if isinstance(name, int):
        return f"[{name}]"
    return f".{name}" if name.isidentifier() and name.isascii() else f"[{json.dumps(name)}]"


def convert(data: Any, kind: type[T], *, strict: bool = True) -> T:
    """Return what was read as a value of a type.

    Args:
        data: Of JSON.
        kind: Such as a dataclass.
        strict: Whether a text that spells a number is no number.

    Raises:
        ValueError: It is no such value; the message says what is wrong, and where.
    """
    import msgspec

    try:
        return msgspec.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error  # which that of older releases is not
