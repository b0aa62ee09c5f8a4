"""Image -> what it shows: plain image analysis, written without knowing what the image should show.

The background is the median of the border. Things are connected regions that differ from it; each has the name of the
nearest colour, the shape whose outline in the same box covers it best, and a size by the length of its longer side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_sdperf.core.files.arrays import Array
from pytest_sdperf.core.scenes import BACKGROUNDS, COLOURS, CROSS_ARM, IMAGE_SIZE, RADII, SHAPES, Rgb

if TYPE_CHECKING:
    Image: TypeAlias = Array

UNCLEAR = "unclear"
_BORDER = 3
# Distances of colours, of 255 per channel: what differs from the background; what has a name at all.
_DIFFERENT, _NAMELESS = 45.0, 75.0
_PLAIN_SHARE = 0.75
_SMALLEST_AREA = 50
_LEAST_COVER = 0.72
_LARGE_FROM = RADII["small"][1] + RADII["large"][0]
_SIDES = (1.3 * RADII["small"][0], 2.6 * RADII["large"][1])


@dataclass(frozen=True)
class SceneReading:
    """One thing that an image shows.

    Attributes:
        colour, shape, size: Names of `scenes`, or `unclear`.
        x, y: Centre of its box in pixels, from the upper left corner.
        cover: Intersection over union of the thing and the outline of its shape, from 0 to 1.
        colour_error: Distance of its median colour from the named one, of 255 per channel.
    """

    colour: str
    shape: str
    size: str
    x: float
    y: float
    cover: float
    colour_error: float


@dataclass(frozen=True)
class Reading:
    """What an image shows: its background, and its things from the largest to the smallest."""

    background: str
    things: tuple[SceneReading, ...]


def read(image: Image) -> Reading:
    """Read an image [3, 128, 128] in [-1, 1]; one that holds NaN or infinity shows nothing.

    Raises:
        ValueError: It has another shape.
    """
    import numpy as np
    from scipy import ndimage

    if image.shape != (3, IMAGE_SIZE, IMAGE_SIZE):
        raise ValueError(f"an image of shape {image.shape}; it must be (3, {IMAGE_SIZE}, {IMAGE_SIZE})")
    if not np.isfinite(image).all():
        return Reading(UNCLEAR, ())
    pixels = (np.clip(image.astype(np.float64), -1, 1) + 1) * 127.5
    pixels = ndimage.median_filter(pixels, size=(1, 3, 3))
    behind, background = _background(pixels)
    regions, count = ndimage.label(_distance(pixels, behind) > _DIFFERENT)
    areas = ndimage.sum_labels(np.ones(regions.shape), regions, np.arange(1, count + 1))
    large = [int(index) + 1 for index in np.argsort(-areas, kind="stable") if areas[index] >= _SMALLEST_AREA]
    return Reading(background, tuple(_seen(pixels, regions == label, behind) for label in large))


def _background(pixels: Image) -> tuple[Image, str]:
    """Return the colour of the border and its name; it has none where much of the border has another colour."""
    import numpy as np

    inside = np.zeros(pixels.shape[1:], dtype=bool)
    inside[_BORDER:-_BORDER, _BORDER:-_BORDER] = True
    border = pixels[:, ~inside]
    colour = np.median(border, axis=1)
    plain = np.linalg.norm(border - colour[:, None], axis=0) < _DIFFERENT
    name, _ = _named(colour, {**BACKGROUNDS, **COLOURS})
    return colour, name if plain.mean() >= _PLAIN_SHARE else UNCLEAR


def _seen(pixels: Image, region: Image, behind: Image) -> SceneReading:
    """Describe one region; its outline is where its own colour and the background are equally far away."""
    import numpy as np
    from scipy import ndimage

    core = ndimage.binary_erosion(region, iterations=2)
    colour = np.median(pixels[:, core if core.any() else region], axis=1)
    own = region & (_distance(pixels, colour) < _distance(pixels, behind))
    own = own if own.any() else region
    rows, columns = np.nonzero(own.any(axis=1))[0], np.nonzero(own.any(axis=0))[0]
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    height, width = int(bottom - top), int(right - left)
    name, error = _named(colour, {**BACKGROUNDS, **COLOURS})
    shape, cover = _best_shape(own[top:bottom, left:right])
    return SceneReading(
        colour=name,
        shape=shape,
        size=_size(width, height),
        x=float(left + right) / 2,
        y=float(top + bottom) / 2,
        cover=cover,
        colour_error=error,
    )


def _size(width: int, height: int) -> str:
    shorter, longer = sorted((width, height))
    if shorter < _SIDES[0] or longer > _SIDES[1]:
        return UNCLEAR
    return "large" if longer >= _LARGE_FROM else "small"


def _best_shape(mask: Image) -> tuple[str, float]:
    """Return the shape whose outline in this box covers the mask best, and how well: intersection over union."""
    covers = {shape: _cover(mask, outline(shape, *mask.shape)) for shape in SHAPES}
    best = max(covers, key=lambda shape: covers[shape])
    return best if covers[best] >= _LEAST_COVER else UNCLEAR, covers[best]


def _cover(one: Image, other: Image) -> float:
    return float((one & other).sum() / (one | other).sum())


def outline(shape: str, height: int, width: int) -> Image:
    """Return the pixels of a shape that fills a box, as booleans [height, width]."""
    import numpy as np

    y = ((np.arange(height) + 0.5) / height * 2 - 1)[:, None]
    x = np.abs((np.arange(width) + 0.5) / width * 2 - 1)[None, :]
    if shape == "circle":
        return np.asarray(x**2 + y**2 <= 1)
    if shape == "square":
        return np.ones((height, width), dtype=bool)
    if shape == "triangle":
        return np.asarray(2 * x <= y + 1)
    return np.asarray((x <= CROSS_ARM) | (np.abs(y) <= CROSS_ARM))


def _named(colour: Image, names: dict[str, Rgb]) -> tuple[str, float]:
    """Return the name of the nearest colour, and its distance."""
    import numpy as np

    distances = {name: float(np.linalg.norm(colour - np.asarray(rgb))) for name, rgb in names.items()}
    nearest = min(distances, key=lambda name: distances[name])
    return (nearest if distances[nearest] < _NAMELESS else UNCLEAR), distances[nearest]


def _distance(pixels: Image, colour: Image) -> Image:
    import numpy as np

    return np.asarray(np.linalg.norm(pixels - colour[:, None, None], axis=0))
