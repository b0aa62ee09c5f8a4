"""The axes that the cases of a test have."""

from __future__ import annotations

from enum import Enum


class Axes(Enum):
    """Which axes the fixtures of a test need; each has those before it too."""

    MODEL = "model"
    BUILD = "build"
    ENGINE = "engine"
