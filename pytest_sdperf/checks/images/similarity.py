"""How alike two pictures are: PSNR, SSIM and FLIP, each as an error that is 0 for equal pictures.

SSIM is scikit-image's, with the window of the paper (Wang et al. 2004); FLIP is NVIDIA's own `flip-evaluator`. Both
come with the extra `pictures`; PSNR needs numpy alone.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from pytest_sdperf.core.files.arrays import Array

if TYPE_CHECKING:
    Pictures: TypeAlias = Array

PSNR, SSIM, FLIP = "psnr", "ssim", "flip"
_PACKAGES = {SSIM: "skimage", FLIP: "flip_evaluator"}
_SMALLEST = 11  # pixels of a side: the window of SSIM


def errors(obtained: Pictures, reference: Pictures) -> dict[str, float]:
    """Return every error that can be computed here, by metric; of several pictures the largest.

    Args:
        obtained: (N, 3, H, W), nominally in [-1, 1]; what lies beyond is clipped, as a screen does.
        reference: The same pictures as they should be.

    Returns:
        `psnr`: root mean square error as a share of the range, of which PSNR is -20 log10; `ssim`: 1 - SSIM; `flip`:
        mean FLIP.
    """
    pairs = [(_screen(one), _screen(other)) for one, other in zip(obtained, reference, strict=True)]
    ready = {name: error for name, error in _ERRORS.items() if _is_ready(name, reference.shape)}
    return {name: max(error(*pair) for pair in pairs) for name, error in ready.items()}


def missing() -> tuple[str, ...]:
    """Return the metrics whose package is not installed."""
    return tuple(name for name, package in _PACKAGES.items() if importlib.util.find_spec(package) is None)


def spelled(metric: str, error: float) -> str:
    """Return an error as the metric is usually written: `PSNR 52.1 dB`, `SSIM 0.99812`, `FLIP 0.0123`."""
    if metric == PSNR:
        return f"PSNR {-20 * math.log10(error):.1f} dB" if error else "PSNR infinite"
    if metric == SSIM:
        return f"SSIM {1 - error:.6g}"
    return f"FLIP {error:.3g}"


def value(metric: str, error: float) -> str:
    """Return an error as `spelled` does, without the name of the metric."""
    return spelled(metric, error).partition(" ")[2]


def bound(metric: str, limit: float) -> str:
    """Return a limit in words: `at least 53.5 dB`, `at most 0.0242`."""
    return f"{'at most' if metric == FLIP else 'at least'} {value(metric, limit)}"


def _is_ready(metric: str, shape: tuple[int, ...]) -> bool:
    return metric not in missing() and (metric == PSNR or min(shape[-2:]) >= _SMALLEST)


def _screen(picture: Array) -> Array:
    """Return (H, W, 3) in [0, 1]."""
    import numpy as np

    return np.ascontiguousarray((np.clip(picture.astype(np.float64), -1, 1).transpose(1, 2, 0) + 1) / 2)


def _rms(obtained: Array, reference: Array) -> float:
    import numpy as np

    return float(np.sqrt(np.mean((obtained - reference) ** 2)))


def _structure(obtained: Array, reference: Array) -> float:
    from skimage.metrics import structural_similarity

    similarity = structural_similarity(  # type: ignore[no-untyped-call]
        obtained,
        reference,
        channel_axis=-1,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )
    return max(0.0, 1 - float(similarity))


def _flip(obtained: Array, reference: Array) -> float:
    import flip_evaluator
    import numpy as np

    _, error, _ = flip_evaluator.evaluate(
        reference.astype(np.float32), obtained.astype(np.float32), "LDR", applyMagma=False
    )
    return float(error)


_ERRORS: Mapping[str, Callable[[Array, Array], float]] = {
    PSNR: _rms,
    SSIM: _structure,
    FLIP: _flip,
}
