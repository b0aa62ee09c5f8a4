"""Faults of weights: what gets lost or changed between a checkpoint and what is loaded.

Each takes float32 arrays by name, as the torch module or the exported graph calls them, and changes them in place.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.faults.wanted import DECODER, DECODER_SINGLE, TEXT_ENCODER, TEXT_RAW, not_comparable, too_far

if TYPE_CHECKING:
    import numpy as np

    Weights = MutableMapping[str, np.ndarray[Any, Any]]

_NORM = r"norm[\w.]*\.weight$"


def named(weights: Weights, pattern: str, *, dimensions: int) -> list[str]:
    """Return the names that match a pattern, of arrays with so many dimensions, sorted.

    Raises:
        NowhereError: There is none.
    """
    found = [name for name, array in weights.items() if re.search(pattern, name) and array.ndim == dimensions]
    if not found:
        raise NowhereError(f"no weight is named {pattern}")
    return sorted(found)


def round_to_bfloat16(weights: Weights) -> None:
    import numpy as np

    for name, array in weights.items():
        bits = array.astype(np.float32).view(np.uint32)
        even = ((bits >> 16) & 1) + np.uint32(0x7FFF)
        weights[name] = ((bits + even) & np.uint32(0xFFFF0000)).view(np.float32)


def quantize(weights: Weights) -> None:
    import numpy as np

    for name in named(weights, "weight$", dimensions=4):
        step = max(float(np.abs(weights[name]).max()) / 127, 1e-12)
        weights[name] = (np.round(weights[name] / step) * step).astype(np.float32)


def exchange_norms(weights: Weights) -> None:
    import numpy as np

    names = named(weights, _NORM, dimensions=1)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            if weights[one].shape == weights[other].shape and not np.array_equal(weights[one], weights[other]):
                weights[one], weights[other] = weights[other], weights[one]
                return
    raise NowhereError("no two norms of the same width")


def reset_norms(weights: Weights) -> None:
    import numpy as np

    for name in named(weights, _NORM, dimensions=1):
        weights[name] = np.ones_like(weights[name])
        weights[name.removesuffix("weight") + "bias"] = np.zeros_like(weights[name])


def lose_biases(weights: Weights) -> None:
    import numpy as np

    for name in named(weights, r"conv[\w.]*\.bias$", dimensions=1):
        weights[name] = np.zeros_like(weights[name])


def rotate_kernel(weights: Weights) -> None:
    name = next(one for one in named(weights, "conv1.weight$", dimensions=4))
    weights[name] = weights[name].transpose(0, 1, 3, 2).copy()


def cut_short(weights: Weights) -> None:
    name = named(weights, "weight$", dimensions=4)[-1]
    array = weights[name].copy()
    array.reshape(-1)[array.size // 2 :] = 0
    weights[name] = array


def flip_bit(weights: Weights) -> None:
    import numpy as np

    name = named(weights, "conv1.weight$", dimensions=4)[0]
    array = weights[name].astype(np.float32)
    values = array.reshape(-1)
    place = int(np.flatnonzero((np.abs(values) > 0) & (np.abs(values) < 1))[0])
    values.view(np.uint32)[place] ^= np.uint32(1 << 30)  # the highest bit of the exponent
    weights[name] = array


def put_nan(weights: Weights) -> None:
    import numpy as np

    name = named(weights, "conv_out.bias$", dimensions=1)[0]
    array = weights[name].copy()
    array[0] = np.nan
    weights[name] = array


def _fault(name: str, about: str, change: Any) -> Fault:
    found = too_far(DECODER, "float32")
    return Fault(f"weights-{name}", about, FaultStage.WEIGHTS, change, found, DECODER, DECODER_SINGLE)


def _of_norms(name: str, about: str, change: Any) -> Fault:
    """Return a fault of the text encoder: its norms keep their names in an exported graph."""
    found = too_far(TEXT_ENCODER, "float32")
    return Fault(f"weights-{name}", about, FaultStage.WEIGHTS, change, found, TEXT_ENCODER, TEXT_RAW)


_NOT_FINITE = not_comparable("output 'sample' holds # of # values that are not finite")
FAULTS = (
    _fault("rounded-to-bfloat16", "A checkpoint that was saved in bfloat16 is loaded as float32.", round_to_bfloat16),
    _fault("quantized", "Convolutions come from a file of 8-bit weights.", quantize),
    _of_norms("norms-exchanged", "Two norms have each other's scale: keys were mapped wrongly.", exchange_norms),
    _of_norms(
        "norms-reset",
        "Every norm is as it was before training: its keys were missing, and nobody was strict.",
        reset_norms,
    ),
    _fault("biases-lost", "The biases of convolutions are zero: their keys were missing.", lose_biases),
    _fault("kernel-rotated", "A kernel was stored with height and width exchanged.", rotate_kernel),
    _fault("cut-short", "The second half of a tensor is zeros, as after a download that was cut off.", cut_short),
    Fault(
        "weights-bit-flipped",
        "One bit of one weight is flipped: the highest one of its exponent.",
        FaultStage.WEIGHTS, flip_bit, _NOT_FINITE, DECODER, DECODER_SINGLE,
    ),
    Fault(
        "weights-not-a-number",
        "One bias is not a number.",
        FaultStage.WEIGHTS, put_nan, _NOT_FINITE, DECODER, DECODER_SINGLE,
    ),
)  # fmt: skip
