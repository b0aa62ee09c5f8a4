"""Correct before fast: what an engine computes against torch in higher precision.

The tolerance is derived. The reference error is that of plain torch in the same dtype, against the same reference; an
optimized build may be at most `FACTOR` times as far away (`tensors`, `steps`, `picture`). Every tensor is first checked
finite.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.agreement import table
from pytest_sdperf.checks.agreement.hints import remedies
from pytest_sdperf.checks.agreement.joints import with_joints
from pytest_sdperf.checks.agreement.judging import judge_agreements
from pytest_sdperf.checks.agreement.request import compare_request
from pytest_sdperf.checks.agreement.tensors import compare, different, share_of_limit
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.locate.locate import locate
from pytest_sdperf.checks.precision.roundings import judged_by_several
from pytest_sdperf.checks.references.kinds import told_of_quantized
from pytest_sdperf.checks.references.of_case import Reference, other_roundings, reference_of
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.components import IMAGE, upcasts
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.check import CheckRow
from pytest_sdperf.core.values.outcomes import Agreement, Verdict

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

PROCESSES = 3
"""In which a component is executed to be compared, where its engine does not promise equal bits in all of them."""


class Agrees(Check):
    """Execute the case and compare it with torch: `sdperf_agree(runner)` fails the test beyond the derived limits."""

    name, fixture = "agreement", "agree"
    compares = reads_outputs = True
    sides = "AB"
    columns = table.COLUMNS

    def references(self, subject: CaseRunner) -> Sequence[str]:
        """Return the dtype that is tested, and the next higher one."""
        return exact_and_rough(subject.dtype)

    def run(self, subject: CaseRunner) -> tuple[Agreement, ...]:
        """Compare, and look where it begins what is beyond a limit."""
        found, settings = agree(subject), subject.context.settings
        # A joint beyond its limit is a place itself.
        wrong = next((number for number, one in enumerate(found) if not (one.passed or one.joints)), None)
        if wrong is None or not settings.locate:
            return found
        located = dataclasses.replace(found[wrong], located=locate(subject, found, settings=settings))
        return (*found[:wrong], located, *found[wrong + 1 :])

    def judge(self, finding: tuple[Agreement, ...], case: Case, *, policy: Policy) -> Verdict:
        """Judge every level; the first one beyond its limit decides."""
        return judge_agreements(finding, metric=self.name)

    def rows(self, finding: tuple[Agreement, ...]) -> Sequence[CheckRow]:
        """Return a row per level."""
        return table.rows(finding)

    def legends(self, finding: tuple[Agreement, ...]) -> Sequence[str]:
        """Say what was compared with what."""
        return table.legends(finding)


def agree(runner: CaseRunner) -> tuple[Agreement, ...]:
    """Execute a case once and compare its outputs with the reference, level by level along the data flow.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch as the reference, could not run.
    """
    against = reference_of(runner)
    against = dataclasses.replace(against, remark=" ".join(filter(None, [against.remark, told_of_quantized(runner)])))
    dtype, by = against.dtype, against.by
    advice = remedies(runner.case, upcasts=_upcasts(runner)) if runner.dtype == "float16" else {}
    if runner.is_pipeline:
        obtained = runner.outputs()

        def compare_with(plain: Arrays) -> tuple[Agreement, ...]:
            return compare_request(obtained, against.exact, plain=plain, dtype=dtype, by=by, remedies=advice)

        others = functools.partial(other_roundings, runner, dtype)
        found = judged_by_several(compare_with(against.rough), others, compare_with)
        return _saying(against, found, _only_decoding(found), _switched_on(runner))
    agreement = judged_by_all(
        several_answers(runner),
        lambda one: compare(one, against.exact, plain=against.rough, level="component", dtype=dtype),
    )
    told = "" if math.isfinite(agreement.error + agreement.limit) else advice.get(runner.case.component, "")
    told = " ".join(filter(None, [agreement.told, told]))
    whole = dataclasses.replace(agreement, by=by, told=told, reference=against.reference)
    return _saying(against, with_joints(runner, whole))


def several_answers(runner: CaseRunner) -> list[Arrays]:
    """Return what a component gives in each process of its agreement."""
    processes = 1 if runner.context.device.kind in runner.engine.repeats_on else PROCESSES
    return [runner.outputs(), *(runner.run() for _ in range(processes - 1))]


def judged_by_all(answers: Sequence[Arrays], judge: Callable[[Arrays], Agreement]) -> Agreement:
    """Return the worst agreement of several answers to equal calls, saying so where others are within the limit.

    Args:
        answers: One of each process.
        judge: Compares one of them.
    """
    found = [judge(one) for one in answers]
    worst = max(found, key=share_of_limit)
    beyond = sum(not one.passed for one in found)
    if beyond in (0, len(found)):
        return worst
    told = (
        f"Equal calls of {len(found)} processes have {plural(len(different(answers)), 'answer')}, and that of {beyond} "
        f"of them is beyond the limit: what each process draws or tunes anew decides."
    )
    return dataclasses.replace(worst, told=" ".join(filter(None, [worst.told, told])))


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
    """Say what the code of an external pipeline switched on that its reference has not."""
    found = runner.description.switched_on if isinstance(runner, ExternalPipelineRunner) else ()
    if not found:
        return ""
    return (
        f"The pipeline has {', '.join(found)} switched on, and what it is compared with has not: that changes what is "
        f"computed. Make it without to see whether anything else differs."
    )


def _upcasts(runner: CaseRunner) -> bool:
    if isinstance(runner, ExternalPipelineRunner):
        return runner.description.upcasts_decoder
    return upcasts(runner.model)
