"""Correct before fast: what an engine computes against torch in higher precision.

The tolerance is derived. Plain torch in the same floating type, against the same reference, is the yardstick; an
optimized build may be at most `FACTOR` times as far away (`comparing`). Every tensor is first checked finite.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.comparing.remedies import remedies
from pytest_sdperf.comparing.request import compare_request
from pytest_sdperf.comparing.roundings import judged_by_several
from pytest_sdperf.comparing.tensors import compare
from pytest_sdperf.components import IMAGE, upcasts
from pytest_sdperf.executing.given_pipeline import GivenPipelineRunner
from pytest_sdperf.executing.runner import CaseRunner
from pytest_sdperf.references.kinds import told_of_quantized
from pytest_sdperf.references.of_case import Reference, other_roundings, reference_of
from pytest_sdperf.values.outcomes import Agreement

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]


def agree(runner: CaseRunner) -> tuple[Agreement, ...]:
    """Execute a case once and compare its outputs with the reference, level by level along the data flow.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch as the reference, could not run.
    """
    against = reference_of(runner)
    against = dataclasses.replace(against, remark=" ".join(filter(None, [against.remark, told_of_quantized(runner)])))
    floating, by = against.floating, against.by
    advice = remedies(runner.case, upcasts=_upcasts(runner)) if runner.floating == "float16" else {}
    if runner.is_pipeline:
        obtained = runner.outputs()

        def compare_with(plain: Arrays) -> tuple[Agreement, ...]:
            return compare_request(obtained, against.exact, plain=plain, floating=floating, by=by, remedies=advice)

        others = functools.partial(other_roundings, runner, floating)
        found = judged_by_several(compare_with(against.rough), others, compare_with)
        return _saying(against, found, _only_decoding(found), _switched_on(runner))
    agreement = compare(runner.outputs(), against.exact, plain=against.rough, level="component", floating=floating)
    told = "" if math.isfinite(agreement.error + agreement.limit) else advice.get(runner.case.component, "")
    return _saying(against, [dataclasses.replace(agreement, by=by, told=told)])


def _saying(against: Reference, agreements: Sequence[Agreement], *remarks: str) -> tuple[Agreement, ...]:
    """Return agreements with the type of their reference; the first one beyond its limit says what is to be known."""

    def said(one: Agreement) -> Agreement:
        beyond = math.isfinite(one.error) and not one.passed
        known = remarks if one is first else ()
        told = " ".join(filter(None, [one.told, *([against.remark, *known] if beyond else [])]))
        return dataclasses.replace(one, reference=against.reference, told=told)

    first = next((one for one in agreements if not one.passed), None)
    return tuple(map(said, agreements))


def _only_decoding(agreements: Sequence[Agreement]) -> str:
    """Say that the latents of a request agree where its image does not; nothing elsewhere."""
    steps = [one for one in agreements if one.steps]
    images = [one for one in agreements if one.level == IMAGE]
    if not steps or not all(one.passed for one in steps) or all(one.passed for one in images):
        return ""
    return "The latents after every step agree: only decoding them differs."


def _switched_on(runner: CaseRunner) -> str:
    """Say what the code of a given pipeline switched on that its reference has not."""
    found = runner.description.switched_on if isinstance(runner, GivenPipelineRunner) else ()
    if not found:
        return ""
    return (
        f"The pipeline has {', '.join(found)} switched on, and what it is compared with has not: that changes what is "
        f"computed. Make it without to see whether anything else differs."
    )


def _upcasts(runner: CaseRunner) -> bool:
    if isinstance(runner, GivenPipelineRunner):
        return runner.description.upcasts_decoder
    return upcasts(runner.model)
