"""Does an image show what its prompt says?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.semantics.reading import Reading, SceneReading, read
from pytest_sdperf.core.files.arrays import Array
from pytest_sdperf.core.scenes import Scene, Thing

Place = tuple[float, float]

_WORST_COLOUR = 100.0


@dataclass(frozen=True)
class Score:
    """How one image answers its prompt.

    Attributes:
        wrong: What it does not show as said: `background`, `count`, `colour`, `shape`, `size`, `position`; nothing of
            the things where it shows another number of them.
        clearness: From 0 to 1: how well the things that are right cover their outlines, in the colours said; one that
            is not there counts 0.
        places: Centres of the first and the second thing in pixels; empty where another number of things is seen.
    """

    wrong: tuple[str, ...]
    clearness: float
    places: tuple[Place, ...] = ()

    @property
    def right(self) -> bool:
        """Whether everything is as the prompt says."""
        return not self.wrong


def score(scene: Scene, image: Array) -> Score:
    """Score an image [3, 128, 128] in [-1, 1] of a scene."""
    return compare(scene, read(image))


def compare(scene: Scene, reading: Reading) -> Score:
    """Compare what is seen with what was said."""
    wrong = [] if reading.background == scene.background else ["background"]
    if len(reading.things) != 2:
        return Score((*wrong, "count"), 0.0)
    first, second = _in_order(scene, reading.things)
    pairs = ((scene.first, first), (scene.second, second))
    wrong += [
        attribute
        for attribute in ("colour", "shape", "size")
        if any(getattr(said, attribute) != getattr(seen, attribute) for said, seen in pairs)
    ]
    if relation(first, second) != scene.relation:
        wrong.append("position")
    clearness = sum(_clearness(said, seen) for said, seen in pairs) / 2
    return Score(tuple(wrong), clearness, ((first.x, first.y), (second.x, second.y)))


def shift(mine: Sequence[Score], theirs: Sequence[Score]) -> float:
    """Return how far things are from where the same pictures of somebody else have them: a mean in pixels.

    Pictures in which either side sees another number of things do not count; NaN if that is all of them.
    """
    distances = [
        math.dist(here, there)
        for one, other in zip(mine, theirs, strict=True)
        for here, there in zip(one.places, other.places, strict=False)
    ]
    return statistics.fmean(distances) if distances else math.nan


def relation(first: SceneReading, second: SceneReading) -> str:
    """Say where the first thing is, seen from the second, along the axis on which they are farther apart."""
    across, down = second.x - first.x, second.y - first.y
    if abs(across) >= abs(down):
        return "left of" if across > 0 else "right of"
    return "above" if down > 0 else "below"


def _in_order(scene: Scene, things: tuple[SceneReading, ...]) -> tuple[SceneReading, SceneReading]:
    """Return the two things in the order of the caption: as their colours say, else as more of the rest does."""
    one, other = things
    return max(((one, other), (other, one)), key=lambda order: _likeness(scene, order))


def _likeness(scene: Scene, order: tuple[SceneReading, SceneReading]) -> tuple[int, int]:
    pairs = tuple(zip((scene.first, scene.second), order, strict=True))
    colours = sum(said.colour == seen.colour for said, seen in pairs)
    rest = sum((said.shape == seen.shape) + (said.size == seen.size) for said, seen in pairs)
    return colours, rest


def _clearness(said: Thing, seen: SceneReading) -> float:
    if (said.colour, said.shape, said.size) != (seen.colour, seen.shape, seen.size):
        return 0.0
    return seen.cover * max(0.0, 1 - seen.colour_error / _WORST_COLOUR)
