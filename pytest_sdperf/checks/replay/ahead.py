"""What torch answers to the calls of a case, computed before its tests run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from pytest_sdperf.builds.execution.calls import ReplayCall
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references import which
from pytest_sdperf.checks.references.of_case import answers
from pytest_sdperf.checks.replay import batch, repeats, resolutions
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.reference_error import exact_and_rough


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
