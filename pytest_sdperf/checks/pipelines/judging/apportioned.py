"""A change, apportioned among the parts of what was timed: kinds of kernels, stages of a request."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# A part is named where it makes up at least this share of the change.
SHARE = 0.1


@dataclass(frozen=True)
class Apportioned:
    """Which parts a change is made of.

    Attributes:
        before: Part -> what it took, the middle of the stored sessions.
        whole: The change of all of them together.
        named: The parts that make up a share of it, the largest first; none where nothing changed.
    """

    before: Mapping[str, float]
    whole: float
    named: tuple[str, ...]


def apportioned(names: Iterable[str], now: Mapping[str, float], known: Sequence[Mapping[str, float]]) -> Apportioned:
    """Apportion the change between sessions and now.

    Args:
        names: Of the parts; of those that changed alike the earlier comes first.
        now: Part -> what it takes; a part that is missing takes nothing.
        known: The same, of each stored session.
    """
    before = {name: statistics.median(one.get(name, 0.0) for one in known) for name in names}
    change = {name: now.get(name, 0.0) - took for name, took in before.items()}
    whole = sum(change.values())
    parts = (name for name in change if whole and change[name] / whole >= SHARE)
    return Apportioned(before, whole, tuple(sorted(parts, key=lambda name: -abs(change[name]))))
