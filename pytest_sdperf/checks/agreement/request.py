"""A whole request against the reference, along its data flow: every step, then the image."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.checks.agreement.picture import compare_picture
from pytest_sdperf.checks.agreement.ranges import origin_of, story
from pytest_sdperf.checks.agreement.steps import compare_steps
from pytest_sdperf.core.components import IMAGE, LATENTS
from pytest_sdperf.core.reference_error import REFERENCE
from pytest_sdperf.core.values.outcomes import Agreement

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

_DECODER = "vae_decoder"


def compare_request(
    obtained: Arrays, reference: Arrays, *, plain: Arrays, dtype: str, by: str, remedies: Mapping[str, str]
) -> tuple[Agreement, ...]:
    """Return the agreement of the steps, where all of them kept them, and then those of the image.

    Args:
        obtained: Outputs of a request, as `runner.run()` returns them.
        reference: Those of `by` in higher precision.
        plain: Those of plain `by` in `dtype`.
        dtype: The dtype that is tested.
        by: What computed the other two.
        remedies: Component -> what can be done where it overflows, as sentences.
    """
    steps: list[Agreement] = []
    if all(LATENTS in outputs for outputs in (obtained, reference, plain)):
        exact, rough = reference[LATENTS], plain[LATENTS]
        steps.append(compare_steps(obtained[LATENTS], exact, plain=rough, dtype=dtype))
    picture = [*compare_picture(obtained[IMAGE], reference[IMAGE], plain=plain[IMAGE], dtype=dtype)]
    origin = origin_of(obtained) or origin_of(plain)
    if origin is not None:
        told = _told(obtained, reference, plain, dtype=dtype, by=by)
        level = picture if origin.component == _DECODER or not steps else steps
        words = filter(None, [level[0].told, *told, remedies.get(origin.component, "")])
        level[0] = dataclasses.replace(level[0], told=" ".join(words), name=_name(dtype, reference))
    return tuple(dataclasses.replace(one, by=by) for one in (*steps, *picture))


def _told(obtained: Arrays, reference: Arrays, plain: Arrays, *, dtype: str, by: str) -> Iterator[str]:
    """Yield where values that are not finite come from, in what was obtained and in plain torch."""
    origin, own = origin_of(obtained), origin_of(plain)
    if origin is not None:
        yield story(origin, reference, dtype=dtype, of=f"{by} {REFERENCE[dtype]}")
    if own is not None:
        yield f"The {own.component} of plain {by} {dtype} puts out values that are not finite, too."


def _name(dtype: str, reference: Arrays) -> str:
    return "overflow" if dtype == "float16" and origin_of(reference) is None else "NaN"
