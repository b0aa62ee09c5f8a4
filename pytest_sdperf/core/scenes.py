"""Scenes that a caption says completely: two things of one colour each, one beside the other, on a plain background.

Standard library only: the words are also those of a tokenizer that a worker writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

Rgb = tuple[int, int, int]

# Far apart, so that the nearest name is right under noise, blur and the colour casts of a decoder.
COLOURS: Mapping[str, Rgb] = {
    "red": (220, 40, 40),
    "green": (40, 160, 70),
    "blue": (50, 80, 220),
    "yellow": (240, 215, 50),
    "purple": (150, 60, 190),
    "cyan": (70, 205, 215),
}
BACKGROUNDS: Mapping[str, Rgb] = {"white": (245, 245, 245), "black": (20, 20, 20), "gray": (128, 128, 128)}
SHAPES = ("circle", "square", "triangle", "cross")
SIZES = ("small", "large")
RELATIONS = ("left of", "right of", "above", "below")
# How many pixels half of a thing's width and height is, of an image of 128 x 128.
RADII: Mapping[str, tuple[float, float]] = {"small": (11.0, 14.0), "large": (22.0, 27.0)}
IMAGE_SIZE = 128
# Half of the thickness of a cross, as a part of its radius.
CROSS_ARM = 0.36

WORDS = tuple(
    dict.fromkeys(" ".join(["a", "on", "background", *SIZES, *COLOURS, *SHAPES, *RELATIONS, *BACKGROUNDS]).split())
)


@dataclass(frozen=True)
class Thing:
    """One thing of a scene."""

    size: str
    colour: str
    shape: str

    def __str__(self) -> str:
        return f"a {self.size} {self.colour} {self.shape}"


@dataclass(frozen=True)
class Scene:
    """Two things of unlike colours; `relation` says where the first one is, seen from the second."""

    first: Thing
    relation: str
    second: Thing
    background: str

    @property
    def caption(self) -> str:
        """Return what a prompt says."""
        return f"{self.first} {self.relation} {self.second} on a {self.background} background"


def all_scenes() -> tuple[Scene, ...]:
    """Return every scene there is (23,040), in one fixed order."""
    things = [Thing(size, colour, shape) for size in SIZES for colour in COLOURS for shape in SHAPES]
    return tuple(
        Scene(first, relation, second, background)
        for first, second, background, relation in itertools.product(things, things, BACKGROUNDS, RELATIONS)
        if first.colour != second.colour
    )


PROMPT_COUNT = 100
# Without a common divisor with the number of scenes, and near the golden section of it: any first few are a mixture.
_STRIDE = 14_239


def prompt_scenes(count: int = PROMPT_COUNT) -> tuple[Scene, ...]:
    """Return the first `count` scenes of the fixed list of 100 whose captions are prompts.

    Raises:
        ValueError: `count` is not between 1 and 100.
    """
    if not 1 <= count <= PROMPT_COUNT:
        raise ValueError(f"{count} prompts of the fixed list, which has {PROMPT_COUNT}; give a number from 1 to it")
    scenes = all_scenes()
    return tuple(scenes[index * _STRIDE % len(scenes)] for index in range(count))
