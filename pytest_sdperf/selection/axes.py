"""What the fixtures of a test say about it: the axes of its cases, and whether it executes or times them."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

TIMED_FIXTURES = frozenset({"bench", "interleave"})
EXECUTING_FIXTURES = TIMED_FIXTURES | {"runner", "agree", "drift", "pictures", "replay"}
# Of an A/B they look at both sides.
TWO_SIDED_FIXTURES = frozenset({"bench", "agree"})
ENGINE_FIXTURES = EXECUTING_FIXTURES | {"engine"}
CASE_FIXTURES = ENGINE_FIXTURES | {"case", "model", "build"}
DEVICE_FIXTURES = ENGINE_FIXTURES | {"device"}


class Axes(Enum):
    """Which axes the fixtures of a test need."""

    MODEL = "model"
    BUILD = "build"
    ENGINE = "engine"

    @classmethod
    def of(cls, fixtures: Collection[str]) -> Axes:
        """Return the axes for the names of a test's fixtures, indirect ones included."""
        if ENGINE_FIXTURES.intersection(fixtures):
            return cls.ENGINE
        if "build" in fixtures:
            return cls.BUILD
        return cls.MODEL if "model" in fixtures else cls.ENGINE
