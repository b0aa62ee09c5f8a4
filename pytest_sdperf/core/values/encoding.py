"""Frozen values as plain JSON data."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Turn a frozen value, or a container of them, into plain JSON data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(to_json, value))
    return str(value) if isinstance(value, Path) else value


def finite(value: Any) -> Any:
    """Return JSON data in which numbers that are not finite, which JSON cannot hold, are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_json(data: Any, kind: type[T]) -> T:
    """Turn plain JSON data that the suite sent back into the value it was, in a worker, which has no msgspec.

    Args:
        data: As `to_json` made it.
        kind: A dataclass, whose fields are dataclasses, tuples, mappings, enumerations, paths and plain values.

    Raises:
        TypeError: A field lacks, or nothing is known of one.
    """
    return typing.cast("T", _read(data, kind))


def _read(data: Any, kind: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if data is None or kind is Any:
        return data
    if origin in (typing.Union, types.UnionType):
        (only,) = (one for one in inner if one is not type(None))
        return _read(data, only)
    if origin is tuple:
        kinds = inner[:1] * len(data) if inner[-1] is Ellipsis else inner
        return tuple(_read(item, one) for item, one in zip(data, kinds, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _read(item, inner[1]) for key, item in data.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [_read(item, inner[0]) for item in data]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        fields = _fields(kind)
        return kind(**{name: _read(item, fields[name]) if name in fields else item for name, item in data.items()})
    return kind(data) if isinstance(kind, type) and issubclass(kind, (Enum, Path, float)) else data


@cache
def _fields(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)
