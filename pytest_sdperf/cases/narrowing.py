"""One axis of a test's cases: what the command line names, what the marker names, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class NothingLeftError(Exception):
    """An axis has no value: the command line and the marker have nothing in common, or nothing is registered."""


def narrow(axis: str, named: Sequence[T], marked: Sequence[T] | None, default: Sequence[T]) -> Sequence[T]:
    """Return the values of one axis: what the command line and the marker agree on, or what one of them says."""
    if not named:
        return default if marked is None else marked
    common = [value for value in named if marked is None or value in marked]
    if not common:
        raise NothingLeftError(nothing_left(axis, named, marked or ()))
    return common


def nothing_left(axis: str, named: Sequence[object], marked: Sequence[object]) -> str:
    """Say that the command line and a test's marker have no value of an axis in common."""
    said, wanted = (", ".join(map(str, values)) for values in (named, marked))
    return f"this test is for {axis} {wanted}, the command line names {said}"
