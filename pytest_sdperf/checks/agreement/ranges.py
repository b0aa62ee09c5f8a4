"""Which component was the first to put out something that is not finite, and at which of its calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.components import IMAGE, LATENTS, RANGE
from pytest_sdperf.core.files.arrays import not_finite

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

UNET = "unet"
END_OF_FLOAT16 = 65504


@dataclasses.dataclass(frozen=True)
class FirstNonFinite:
    """The first output that is not finite.

    Attributes:
        component: Whose output.
        call: Which of its calls in the request, from 1.
        calls: How many calls it had.
        bad, size: Values that are not finite, of all.
        before: Its largest value until then; None where this is its first call.
    """

    component: str
    call: int
    calls: int
    bad: int
    size: int
    before: float | None


def origin_of(outputs: Arrays) -> FirstNonFinite | None:
    """Return where values that are not finite come from; None where there are none, or nobody can tell.

    A pipeline of the user's own is not looked into. Where its latents are finite and its image is not, it was the VAE.

    Args:
        outputs: Of a request, among them `range.COMPONENT`, in the order of the data flow: per call the largest finite
            magnitude, the number of values that are not finite, and of all.
    """
    for name, calls in outputs.items():
        if not name.startswith(RANGE):
            continue
        for index, (_, bad, size) in enumerate(calls):
            if bad:
                before = float(calls[:index, 0].max()) if index else None
                return FirstNonFinite(name.removeprefix(RANGE), index + 1, len(calls), int(bad), int(size), before)
    if LATENTS in outputs and not not_finite(outputs[LATENTS]) and (bad := not_finite(outputs[IMAGE])):
        return FirstNonFinite("vae_decoder", 1, 1, bad, outputs[IMAGE].size, None)
    return None


def largest(outputs: Arrays, component: str) -> float | None:
    """Return the largest magnitude that a component put out; None where nobody watched it, or it was not finite."""
    calls = outputs.get(RANGE + component)
    return float(calls[:, 0].max()) if calls is not None and len(calls) and not calls[:, 1].any() else None


def story(origin: FirstNonFinite, reference: Arrays, *, dtype: str, of: str) -> str:
    """Tell in sentences how a component came to put out values that are not finite.

    Args:
        origin: Where they begin.
        reference: Outputs of the reference.
        dtype: Dtype of the request that went wrong.
        of: What computed the reference, such as `torch float32`.
    """
    at = f"at step {origin.call} of {origin.calls}" if origin.component == UNET else f"in call {origin.call}"
    text = (
        f"The {origin.component} began it: {origin.bad} of {origin.size} values of its output {at} are not finite"
        f"{f'; until then none exceeded {origin.before:.3g}' if origin.before is not None else ''}."
    )
    expected = largest(reference, origin.component)
    if expected is None:
        return text
    text += f" In {of} none exceeds {expected:.3g}."
    if dtype != "float16":
        return text
    return f"{text} So something inside it went beyond {END_OF_FLOAT16}, where float16 ends."
