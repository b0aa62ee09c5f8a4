"""How far a build is from itself on a GPU: no change that is smaller can mean anything there."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.stats.pairs import compare
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.selftest.records import SelfTestRun, SelfTests

# A B B A: so many processes in a row are two pairs.
GROUP = 4
# One comparison in so many may be further apart.
ONE_IN = 20
# Of fewer comparisons nobody can tell what one in twenty is.
FEWEST = 10


@dataclass(frozen=True)
class RunSpread:
    """How far apart measurements of one build are.

    Attributes:
        effect: The relative change that one comparison in twenty exceeds.
        text: What that rests on.
    """

    effect: float
    text: str


def spread_by(tested: SelfTests, *, processes: int, pairs: bool) -> RunSpread | None:
    """Return how far the self-tests of one case found a build to be from itself; None if there were too few.

    Sessions, or pairs, of as many processes as the first interim analysis of a verdict has.

    Args:
        tested: Of one machine.
        processes: Of a session.
        pairs: Whether processes that take turns are compared, and not sessions.
    """
    found = list(_pairs(tested.runs) if pairs else _sessions(tested.runs, processes))
    if len(found) < FEWEST:
        return None
    effect = math.expm1(statistics.quantiles(found, n=ONE_IN, method="inclusive")[-1])
    date, count = tested.runs[-1].date[:10], plural(len(found), "comparison")
    return RunSpread(
        effect, f"in its self-test of {date}, one in {ONE_IN} of {count} of one build with itself differed more"
    )


def with_spread(policy: Policy, case: Case, tested: Iterable[SelfTests], *, pairs: bool) -> Policy:
    """Return a policy whose smallest effect is on a GPU never under the widest spread that was measured.

    Args:
        policy: As it was asked for.
        case: What is judged: the self-test of this very case speaks for it, or else those of its kind.
        tested: Self-tests of this very machine.
        pairs: Whether it is judged in pairs, and not by a baseline.
    """
    if policy.on_cpu:
        return policy
    alike = [one for one in tested if _kind_of(one.case) == _kind_of(case)]
    speaking = [one for one in alike if one.case == case] or alike
    found = (spread_by(one, processes=policy.processes, pairs=pairs) for one in speaking)
    widest = max(filter(None, found), key=lambda one: one.effect, default=None)
    return policy if widest is None else policy.never_under(widest.effect, because=widest.text)


def _kind_of(case: Case) -> tuple[object, ...]:
    """Return what cases have in common for which one self-test speaks: the engine, and whether requests are whole."""
    return case.engine, case.engine_options, case.component == PIPELINE


def _pairs(runs: Sequence[SelfTestRun]) -> Iterator[float]:
    """Yield log-ratios of two pairs each: A B B A."""
    for run in runs:
        for a, b, other_b, other_a in _groups(run, GROUP):
            yield abs(compare((a, other_a), (b, other_b)).log)


def _sessions(runs: Sequence[SelfTestRun], processes: int) -> Iterator[float]:
    """Yield log-ratios of sessions: of following runs of one build, whose days differ, or else of one run."""
    medians = [[statistics.median(group) for group in _groups(run, processes)] for run in runs]
    following = [
        zip(medians[number], medians[number + 1], strict=False)
        for number, (one, other) in enumerate(itertools.pairwise(runs))
        if (one.subject, one.builds) == (other.subject, other.builds)
    ]
    inside = [zip(of_run[::2], of_run[1::2], strict=False) for of_run in medians]
    for one, other in itertools.chain.from_iterable(following or inside):
        yield abs(math.log(other / one))


def _groups(run: SelfTestRun, count: int) -> Iterator[Sequence[float]]:
    """Yield whole groups of processes in their order; none serves twice."""
    times = run.plain_s
    return (times[start : start + count] for start in range(0, len(times) - count + 1, count))
