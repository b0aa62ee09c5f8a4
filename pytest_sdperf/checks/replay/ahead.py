"""What torch answers to the calls of a case, computed before its tests run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_sdperf.builds.execution.calls import ReplayCall
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references.of_case import answers
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.checks.replay import batch, repeats, resolutions


def calls_of(runner: CaseRunner, sizes: Sequence[tuple[int, int]]) -> Mapping[str, Sequence[ReplayCall]]:
    """Return the calls of a case that torch answers too, by what they are for; none where there is no torch module.

    A case that takes other sizes is there for the resolutions: the others are those of its twin that takes one.

    Args:
        runner: The case.
        sizes: Resolutions that were named.
    """
    if not by_torch(runner):
        return {}
    if not resolutions.not_applicable(runner):
        return {"resolutions": resolutions.calls_of(runner, resolutions.sizes_of(runner, sizes))}
    own = {} if batch.not_applicable(runner) else {"batch": batch.calls_of(runner)}
    return {"repeats": repeats.calls_of(runner), **own}


def answer(runner: CaseRunner, asked: Mapping[str, Sequence[ReplayCall]], dtypes: Sequence[str]) -> None:
    """Let torch answer calls of a case in several dtypes, all of them in one process."""
    answers(runner, list(asked.values()), dtypes)
