"""Pictures that are wrong at a glance, by name: NaN, black, flat, saturated, noise.

Each name is a trait that is measured on one picture. A picture has a defect where it has the trait and the reference
picture is far from it: thin models with random weights make pictures that are noisy and partly clipped, and a prompt
may ask for a black one. Between "has it" and "is far from it" lies a gap, so that two pictures that nobody can tell
apart never fall on two sides of one threshold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pytest_sdperf.core.files.arrays import Array, not_finite

if TYPE_CHECKING:
    Picture: TypeAlias = Array

NOT_FINITE = "NaN"
CELL = 8  # pixels of a latent, in both directions


@dataclasses.dataclass(frozen=True)
class Trait:
    """One way to be wrong at a glance.

    Attributes:
        name: What it is called.
        measure: Picture (3, H, W), nominally in [-1, 1] -> a number that is low for pictures of this kind.
        has: The picture has the trait at this number or below.
        lacks: It is far from it at this number or above.
        told: What the number is, with a place for it.
    """

    name: str
    measure: Callable[[Picture], float]
    has: float
    lacks: float
    told: str


@dataclasses.dataclass(frozen=True)
class Defect:
    """What is wrong with a picture.

    Attributes:
        name: `NaN`, `black`, `flat`, `saturated` or `noise`.
        told: What was seen and what the reference has instead, without a full stop.
    """

    name: str
    told: str


def find_defect(obtained: Picture, reference: Picture | None = None) -> Defect | None:
    """Return what is wrong with a batch of pictures at a glance; None if nothing is.

    Args:
        obtained: (N, 3, H, W), nominally in [-1, 1].
        reference: The same pictures as they should be; None judges `obtained` by itself.
    """
    for number, picture in enumerate(obtained):
        where = f"image {number + 1} of {len(obtained)}: " if len(obtained) > 1 else ""
        bad = not_finite(picture)
        if bad:
            return Defect(NOT_FINITE, f"{where}{bad} of {picture.size} values are not finite")
        wanted = None if reference is None else reference[number]
        for trait in TRAITS:
            value = trait.measure(picture)
            if value > trait.has:
                continue
            if wanted is None:
                return Defect(trait.name, f"{where}{trait.told.format(value)}")
            there = trait.measure(wanted)
            if there >= trait.lacks:
                told = f"{where}{trait.told.format(value)}, of the reference {trait.told.format(there)}"
                return Defect(trait.name, told)
    return None


def levels(picture: Picture) -> Picture:
    """Return values as a screen shows them, 0 to 255, not rounded."""
    import numpy as np

    clipped: Picture = (np.clip(picture.astype(np.float64), -1, 1) + 1) * 127.5
    return clipped


def brightest(picture: Picture) -> float:
    """Return the highest of all values, 0 to 255."""
    return float(levels(picture).max())


def contrast(picture: Picture) -> float:
    """Return how far the middle 98 % of the values of a channel lie apart, in the channel where it is most."""
    import numpy as np

    low, high = np.percentile(levels(picture), [1, 99], axis=(1, 2))
    return float((high - low).max())


def headroom(picture: Picture) -> float:
    """Return how far from the ends of the range half of the values stay, as a share of the way from grey to an end.

    A picture is clipped where it reaches beyond, so this is 0 or less where half of it is.
    """
    import numpy as np

    return 1 - float(np.median(np.abs(picture.astype(np.float64))))


def smoothness(picture: Picture) -> float:
    """Return the correlation of the brightness of neighbouring cells of 8 x 8 pixels, each of which is one latent.

    Noise has next to none, whatever its grain below the size of a cell; what shows a thing has much.
    """
    import numpy as np

    rows, columns = (size // CELL for size in picture.shape[1:])
    if min(rows, columns) < 2:
        return 1.0  # too small to say anything
    grey = levels(picture).mean(axis=0)[: rows * CELL, : columns * CELL]
    cells = grey.reshape(rows, CELL, columns, CELL).mean(axis=(1, 3))
    cells = cells - cells.mean()
    spread = float(np.mean(cells**2))
    if spread < 1e-12:
        return 1.0  # one colour is flat, and not noise
    beside = np.concatenate([(cells[1:] * cells[:-1]).ravel(), (cells[:, 1:] * cells[:, :-1]).ravel()])
    return float(beside.mean()) / spread


TRAITS = (
    # Level 5 of 255 is 0.15 % of the light of white, which no usual screen shows; level 26 is 1 %.
    Trait("black", brightest, has=5, lacks=26, told="no value is brighter than {:.3g} of 255"),
    # Steps of 4 levels are at the edge of what can be seen, and a JPEG file does not keep them.
    Trait("flat", contrast, has=4, lacks=16, told="98 % of the values of each colour lie within {:.3g} of 255"),
    Trait("saturated", headroom, has=0, lacks=0.1, told="half of the values lie within {:.3g} of an end of the range"),
    # Noise of latents has 0, and 0.4 where it is blended from each to the next; a single thing a fifth as wide as the
    # picture, on a plain ground, has 0.7.
    Trait("noise", smoothness, has=0.5, lacks=0.65, told="neighbouring cells of 8 pixels correlate by {:.2f}"),
)
