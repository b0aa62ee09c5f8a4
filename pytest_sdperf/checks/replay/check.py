"""Does a loaded case give each call its own answer? Three checks of one fixture: equal calls, a batch, resolutions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from pytest_sdperf.builds.execution.calls import ReplayCall
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.references import which
from pytest_sdperf.checks.references.kinds import why_random
from pytest_sdperf.checks.references.of_case import answers
from pytest_sdperf.checks.replay import batch, repeats, resolutions
from pytest_sdperf.checks.replay.compare import share
from pytest_sdperf.checks.replay.judging import METRICS, judge_replay
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.errors import NoReferenceError, SdperfError
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Verdict
from pytest_sdperf.core.values.replays import Replay


class _Replays(Check):
    compares = True
    columns = ("apart", "limit", "error", "limit")
    legend = (
        "apart: largest relative L2 distance of answers that have to be the same (equal: bit for bit): of equal calls "
        "in one process and in several, of rows or images of a batch and the same alone, of one resolution each time "
        "that it comes; error: of answers to other inputs against torch; limits: 2 x the error of plain torch in the "
        "same type"
    )

    def judge(self, finding: Replay, case: Case, *, policy: Policy) -> Verdict:
        """Judge the answers."""
        return judge_replay(finding, case, policy=policy)

    def row(self, finding: Replay) -> tuple[str, ...]:
        """Return how far answers that have to be the same lie apart, and how far they are from torch's."""
        apart = _nearest([(one.largest, one.limit) for one in finding.spreads])
        error = _nearest([(one.error, one.limit) for one in finding.answers])
        equal = finding.spreads and all(one.equal for one in finding.spreads)
        return ("equal" if equal else apart[0], apart[1], *error)


class Repeats(_Replays):
    """Load the case once and call it again and again: `sdperf_replay(runner)` fails where an answer is not its own."""

    word = "repeats"
    name = METRICS["repeats"]

    def prepare(self, subjects: Sequence[CaseRunner]) -> None:
        """Let torch answer the calls of all three checks."""
        answer(subjects)

    def run(self, subject: CaseRunner) -> Replay:
        """Make equal calls, with another one between them."""
        _check(why_not(subject))
        context = subject.context
        return repeats.repeat(subject, repeats=_repeats(context.settings, context.device.kind))


class Batch(_Replays):
    """Look at the images of a batch."""

    word = "batch"
    name, beside = METRICS["batch"], Repeats.name

    def run(self, subject: CaseRunner) -> Replay:
        """Call the case with a batch of different images, and with each alone."""
        _check(why_not(subject) or batch.not_applicable(subject))
        return batch.mix(subject)


class Resolutions(_Replays):
    """Look at resolutions in turns."""

    word = "resolutions"
    name, beside = METRICS["resolutions"], Repeats.name

    def run(self, subject: CaseRunner) -> Replay:
        """Call the case at several resolutions in turns."""
        _check(why_not(subject) or resolutions.not_applicable(subject))
        return resolutions.resize(subject, resolutions.sizes_of(subject, subject.context.settings.resolutions))


def _repeats(settings: Settings, device_kind: str) -> int:
    return settings.repeats or repeats.DEFAULT[device_kind]


def why_not(runner: CaseRunner) -> str:
    """Say why no two answers of a case can be compared; empty where they can be."""
    why = why_random(runner, reference=False)
    return why and f"not applicable: {why}"


def _check(why: str) -> None:
    if why:
        raise NoReferenceError(why)


def _nearest(found: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """Return the distance that is nearest to its limit, and the limit; hyphens where nothing was compared."""
    distance, limit = max(found, key=lambda one: share(*one), default=(None, None))
    return ("-", "-") if distance is None else (f"{distance:.2e}", f"{limit:.2e}")


def calls_of(runner: CaseRunner, sizes: Sequence[tuple[int, int]]) -> Mapping[str, Sequence[ReplayCall]]:
    """Return the calls of a case that torch answers too, by what they are for; none where there is no torch module.

    A case that takes other sizes is there for the resolutions: the others are those of its twin that takes one.

    Args:
        runner: The case.
        sizes: Resolutions that were named.
    """
    if not which.by_torch(runner):
        return {}
    if not resolutions.not_applicable(runner):
        return {"resolutions": resolutions.calls_of(runner, resolutions.sizes_of(runner, sizes))}
    own = {} if batch.not_applicable(runner) else {"batch": batch.calls_of(runner)}
    return {"repeats": repeats.calls_of(runner), **own}


def answer(runners: Sequence[CaseRunner]) -> None:
    """Let torch answer the calls of cases that have them in common, in every dtype of theirs, all in one process."""
    asked: dict[str, Sequence[ReplayCall]] = {}
    dtypes: dict[str, None] = {}
    for runner in runners:
        with contextlib.suppress(SdperfError):  # its test says why
            names = exact_and_rough(runner.dtype)
            asked.update(calls_of(runner, runner.context.settings.resolutions))
            dtypes.update(dict.fromkeys(names))
    answers(runners[0], list(asked.values()), tuple(dtypes))
