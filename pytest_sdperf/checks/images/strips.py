"""Two pictures at every step, with the map of their differences: a strip for the page, a GIF for the eye.

Needs pillow, of the extra `pictures`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_sdperf.checks.images.defects import levels
from pytest_sdperf.core.files.arrays import Array

if TYPE_CHECKING:
    from PIL.Image import Image

    Pictures: TypeAlias = Array

MOST_COLUMNS = 8
_GAP = 4
_LINE = 14  # pixels of one line of text
_FRAME_MS, _LAST_MS = 400, 1600
_SMALLEST, _LARGEST = 96, 256  # pixels of a picture's longer side


@dataclasses.dataclass(frozen=True)
class Pair:
    """The same request made twice, looked at after every step.

    Attributes:
        names: What the two are called.
        pictures: Of each, one picture per step (steps, 3, H, W), nominally in [-1, 1].
        errors: Relative L2 of the latents of each step.
    """

    names: tuple[str, str]
    pictures: tuple[Pictures, Pictures]
    errors: Sequence[float]


def difference_map(obtained: Pictures, reference: Pictures) -> tuple[Pictures, float]:
    """Return how far pictures are apart, (steps, 3, H, W) in [-1, 1] where -1 is equal, and the amplification.

    All steps are amplified alike, so that they can be compared; the largest difference of all is white.
    """
    import numpy as np

    gap = np.abs(np.clip(obtained.astype(np.float64), -1, 1) - np.clip(reference.astype(np.float64), -1, 1))
    gap = np.where(np.isfinite(gap), gap, 2.0).mean(axis=1, keepdims=True).repeat(3, axis=1)
    largest = float(gap.max())
    gain = 2 / largest if largest else 1.0
    return gap * gain - 1, gain


def strip(pair: Pair) -> Image:
    """Return one image: a column for each step (of many, a few of them), a row for each of the two, one for the map."""
    chosen = _chosen(len(pair.errors))
    rows, labels = _rows(pair)
    tiles = [[_tile(row[index]) for index in chosen] for row in rows]
    width, height = tiles[0][0].size
    left = 6 * max(map(len, labels)) + _GAP
    sheet = _sheet(left + len(chosen) * (width + _GAP), 2 * _LINE + len(rows) * (height + _GAP))
    for column, index in enumerate(chosen):
        x = left + column * (width + _GAP)
        _write(sheet, (x, 0), f"step {index + 1} of {len(pair.errors)}")
        _write(sheet, (x, _LINE), f"{pair.errors[index]:.1e}")
        for row, line in enumerate(tiles):
            sheet.paste(line[column], (x, 2 * _LINE + row * (height + _GAP)))
    for row, label in enumerate(labels):
        _write(sheet, (_GAP, 2 * _LINE + row * (height + _GAP) + height // 2), label)
    return sheet


def frames(pair: Pair) -> list[Image]:
    """Return one image per step: the two side by side, and the map."""
    rows, labels = _rows(pair)
    made = []
    for index, error in enumerate(pair.errors):
        tiles = [_tile(row[index]) for row in rows]
        width, height = tiles[0].size
        frame = _sheet(len(tiles) * (width + _GAP), height + 2 * _LINE)
        _write(frame, (_GAP, 0), f"step {index + 1} of {len(pair.errors)}, apart by {error:.1e}")
        for place, (tile, label) in enumerate(zip(tiles, labels, strict=True)):
            _write(frame, (place * (width + _GAP) + _GAP, _LINE), label)
            frame.paste(tile, (place * (width + _GAP), 2 * _LINE))
        made.append(frame)
    return made


def save(pair: Pair, folder: Path) -> list[Path]:
    """Write `strip.png` and `steps.gif` into a folder and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "strip.png", folder / "steps.gif"]
    strip(pair).save(paths[0])
    first, *others = frames(pair)
    times = [_FRAME_MS] * len(others) + [_LAST_MS]
    first.save(paths[1], save_all=True, append_images=others, duration=times, loop=0)
    return paths


def _rows(pair: Pair) -> tuple[list[Pictures], list[str]]:
    difference, gain = difference_map(*pair.pictures)
    return [*pair.pictures, difference], [*pair.names, f"difference x {gain:.3g}"]


def _chosen(steps: int) -> list[int]:
    """Return which steps have a column: all, or as many as fit, evenly, the first and the last among them."""
    columns = min(steps, MOST_COLUMNS)
    return sorted({round(place * (steps - 1) / max(columns - 1, 1)) for place in range(columns)})


def _tile(picture: Pictures) -> Image:
    import numpy as np
    from PIL import Image

    image = Image.fromarray(np.nan_to_num(levels(picture)).round().astype(np.uint8).transpose(1, 2, 0))
    longer = max(image.size)
    scale = min(max(longer, _SMALLEST), _LARGEST) / longer
    return image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.NEAREST)


def _sheet(width: int, height: int) -> Image:
    from PIL import Image

    return Image.new("RGB", (width, height), "white")


def _write(sheet: Image, place: tuple[int, int], text: str) -> None:
    from PIL import ImageDraw

    ImageDraw.Draw(sheet).text(place, text, fill="black")
