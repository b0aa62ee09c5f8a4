"""What Resize means, in the modes of ONNX but for crops and smoothed reductions, written with torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

Tensor: TypeAlias = torch.Tensor

_NEAREST: Mapping[str, Callable[[Tensor], Tensor]] = {
    "round_prefer_floor": lambda at: torch.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: torch.floor(at + 0.5),
    "floor": torch.floor,
    "ceil": torch.ceil,
}


def resize(
    x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None, *,
    mode: str = "nearest", axes: Sequence[int] | None = None, **says: Any,
) -> Tensor:  # fmt: skip
    """Return an image in another size, one axis after the other: every mode treats them apart.

    The source of coordinates and weights is https://onnx.ai/onnx/operators/onnx__Resize.html.
    """
    del roi  # of crops alone
    assert not says.get("antialias")
    assert says.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    along = [axis % x.ndim for axis in axes] if axes is not None else list(range(x.ndim))
    given = sizes if sizes is not None and sizes.numel() else scales
    assert given is not None
    wide = x if x.dtype == torch.float64 or not x.is_floating_point() else x.float()
    for axis, number in zip(along, given.tolist(), strict=True):
        before = x.shape[axis]
        # In float32, as the factors are: 2.6 times 5 is 13 there.
        after = int(number) if given is sizes else math.floor(np.float32(before) * np.float32(number))
        scale = after / before if given is sizes else number
        if (after, scale) != (before, 1):
            at = _places(before, after, scale, says.get("coordinate_transformation_mode", "half_pixel")).to(x.device)
            wide = _along(wide, axis, at, mode, says)
    return wide.to(x.dtype)


def _places(before: int, after: int, scale: float, mode: str) -> Tensor:
    """Return where on the old axis each element of the new one lies."""
    index = torch.arange(after, dtype=torch.float64)
    if mode == "asymmetric":
        return index / scale
    if mode == "align_corners":
        return index * ((before - 1) / (after - 1) if after > 1 else 0)
    if mode == "pytorch_half_pixel" and after <= 1:
        return index * 0
    assert mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
    missing = before / 2 * (1 - after / (scale * before)) if mode == "half_pixel_symmetric" else 0
    return missing + (index + 0.5) / scale - 0.5


def _along(x: Tensor, axis: int, at: Tensor, mode: str, says: Mapping[str, Any]) -> Tensor:
    """Return one axis with an element for each of the places."""
    last = x.shape[axis] - 1
    if mode == "nearest":
        found = _NEAREST[says.get("nearest_mode", "round_prefer_floor")](at)
        return x.index_select(axis, found.long().clamp(0, last))
    taps = _taps(at, mode, float(says.get("cubic_coeff_a", -0.75)))
    if says.get("exclude_outside"):
        inside = [weight * ((index >= 0) & (index <= last)) for index, weight in taps]
        taps = [(index, weight / sum(inside)) for (index, _), weight in zip(taps, inside, strict=True)]
    shape = [-1 if each == axis else 1 for each in range(x.ndim)]
    parts = (x.index_select(axis, i.long().clamp(0, last)) * w.to(x.dtype).view(shape) for i, w in taps)
    total: Tensor = sum(parts, torch.zeros((), dtype=x.dtype, device=x.device))
    return total


def _taps(at: Tensor, mode: str, a: float) -> list[tuple[Tensor, Tensor]]:
    """Return the neighbours of the places, each with its weight."""
    assert mode in ("linear", "cubic")
    first = at.floor()
    part = at - first
    if mode == "linear":
        return [(first, 1 - part), (first + 1, part)]

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(part + 1), near(part), near(1 - part), far(2 - part))
    return [(first + offset, weight) for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)]
