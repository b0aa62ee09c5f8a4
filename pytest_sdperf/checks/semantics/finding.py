"""What was seen in pictures: their scores, each with the window in which it may lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Window:
    """A score and where it may lie.

    Attributes:
        obtained: The score of an engine.
        reference: That of the reference, on the same prompts and initial latents.
        low, high: Between these another draw of as many prompts would bring the reference itself.
    """

    obtained: float
    reference: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the score lies in its window; NaN never does."""
        return self.low <= self.obtained <= self.high


@dataclasses.dataclass(frozen=True)
class ReferenceScores:
    """Does the reference draw what its weights drew when they were stored?

    Attributes:
        right, clearness, shift: As of `Semantics`, of the reference; stored scores stand in place of its own.
        versions: Libraries that draw now.
        stored_versions: Libraries that drew what is stored.
    """

    right: Window
    clearness: Window
    shift: Window
    versions: Mapping[str, str]
    stored_versions: Mapping[str, str]

    @property
    def windows(self) -> tuple[Window, ...]:
        """The scores."""
        return (self.right, self.clearness, self.shift)


@dataclasses.dataclass(frozen=True)
class Semantics:
    """Do pictures show what their prompts say?

    Attributes:
        prompts: How many were drawn.
        right: Share of pictures that show everything as said.
        clearness: Mean clearness of the pictures, from 0 to 1.
        shift: Mean distance of things from where the pictures of the reference have them, in pixels.
        wrong: What is not as said -> in how many pictures.
        lost: Prompts that the reference draws right and the engine does not.
        reference: How the reference itself stands to what is stored of these weights; None where nothing is.
    """

    prompts: int
    right: Window
    clearness: Window
    shift: Window
    wrong: Mapping[str, int]
    lost: tuple[str, ...] = ()
    reference: ReferenceScores | None = None

    @property
    def windows(self) -> tuple[Window, ...]:
        """The scores."""
        return (self.right, self.clearness, self.shift)
