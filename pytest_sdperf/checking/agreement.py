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
from pytest_sdperf.components import upcasts
from pytest_sdperf.executing.given_pipeline import GivenPipelineRunner
from pytest_sdperf.executing.runner import CaseRunner
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
    floating, by = against.floating, against.by
    advice = remedies(runner.case, upcasts=_upcasts(runner)) if runner.floating == "float16" else {}
    if runner.is_pipeline:
        obtained = runner.outputs()

        def compare_with(plain: Arrays) -> tuple[Agreement, ...]:
            return compare_request(obtained, against.exact, plain=plain, floating=floating, by=by, remedies=advice)

        others = functools.partial(other_roundings, runner, floating)
        return _saying(against, judged_by_several(compare_with(against.rough), others, compare_with))
    agreement = compare(runner.outputs(), against.exact, plain=against.rough, level="component", floating=floating)
    told = "" if math.isfinite(agreement.error + agreement.limit) else advice.get(runner.case.component, "")
    return _saying(against, [dataclasses.replace(agreement, by=by, told=told)])


def _saying(against: Reference, agreements: Sequence[Agreement]) -> tuple[Agreement, ...]:
    """Return agreements with the type of their reference; those beyond a limit say what is to be known of it, too."""

    def said(one: Agreement) -> Agreement:
        beyond = math.isfinite(one.error) and not one.passed
        told = " ".join(filter(None, [one.told, against.remark if beyond else ""]))
        return dataclasses.replace(one, reference=against.reference, told=told)

    return tuple(map(said, agreements))


def _upcasts(runner: CaseRunner) -> bool:
    if isinstance(runner, GivenPipelineRunner):
        return runner.description.upcasts_decoder
    return upcasts(runner.model)
