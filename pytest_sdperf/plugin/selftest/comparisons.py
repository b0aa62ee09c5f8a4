"""One comparison of times whose truth is known, by the code that judges the runs of users.

The samples come one by one, in the order in which processes ran.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.checks.ab.pairs import judge_ratio, more_pairs, ratio_of
from pytest_sdperf.checks.judging.escalation import more_processes
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.latency import LATENCY
from pytest_sdperf.core.stats.pairs import Pairs, order
from pytest_sdperf.core.values import Case, Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome


class Take(Protocol):
    """Gives the sample of the next process."""

    def __call__(self, *, slowed: bool) -> Sample:
        """Return that of its calls as they are, or made slower."""


@dataclasses.dataclass(frozen=True)
class Judged:
    """What became of one comparison.

    Attributes:
        outcome: The verdict on the latency.
        processes: Processes that it took, those of a baseline apart.
    """

    outcome: Outcome
    processes: int


def found_in(outcomes: collections.Counter[Outcome], effect: float) -> int:
    """Return how many verdicts called B slower; where nothing was injected slower or faster, each a false alarm."""
    return outcomes[Outcome.REGRESSED] + (0 if effect else outcomes[Outcome.IMPROVED])


def by_pairs(take: Take, case: Case, *, policy: Policy) -> Judged:
    """Judge B, which is slowed, by A in pairs, as `--sdperf-ab` does: A B B A, and more while the verdict is open."""
    sides: tuple[list[Sample], list[Sample]] = ([], [])
    more = policy.pair_analyses.counts[0]
    while True:
        for number in range(len(sides[0]), len(sides[0]) + more):
            for side in order(number):
                sides[side].append(take(slowed=side == 1))
        pairs = Pairs(Measurement(case, tuple(sides[0])), Measurement(case, tuple(sides[1])))
        more = more_pairs(pairs, policy=policy)
        if not more:
            return Judged(judge_ratio(ratio_of(pairs), policy=policy)[0], 2 * pairs.count)


def by_sessions(stored: Sequence[Sequence[Sample]], take: Take, case: Case, *, policy: Policy) -> Judged:
    """Judge a session, which is slowed, by a baseline, as every run does, with more processes while it is open.

    Args:
        stored: Samples of each stored session.
        take: Gives those of the new one.
        case: What is compared.
        policy: How strictly.
    """
    sessions = tuple(Session(date="", samples=tuple(samples)) for samples in stored)
    baseline = StoredCase(case=case, anchor=sessions[0], sessions=sessions)
    samples: tuple[Sample, ...] = ()
    more = policy.processes
    while True:
        samples = (*samples, *(take(slowed=True) for _ in range(more)))
        measurement = Measurement(case, samples)
        more = more_processes(measurement, baseline, policy=policy, differences={})
        if not more:
            return Judged(LATENCY.judge(measurement, baseline, policy=policy).outcome, len(samples))


@dataclasses.dataclass(frozen=True)
class JudgingRule:
    """A way in which users' runs are judged.

    Attributes:
        name: As it is stored.
        title: As it is reported.
        stored: Sessions of the baseline; 0 for an A/B, which has none.
        other_runs: Whether these are other sessions of the self-test, and not other processes of the same one.
    """

    name: str
    title: str
    stored: int = 0
    other_runs: bool = False

    def most(self, policy: Policy) -> int:
        """Return how many processes of the session that is judged a comparison may take."""
        return policy.analyses.last if self.stored else 2 * policy.pair_analyses.last

    def judge(self, baseline: Callable[[], Sequence[Sample]], take: Take, case: Case, *, policy: Policy) -> Judged:
        """Make one comparison.

        Args:
            baseline: Gives the samples of one more stored session.
            take: Gives those of the session that is judged.
            case: What is compared.
            policy: How strictly.
        """
        if not self.stored:
            return by_pairs(take, case, policy=policy)
        return by_sessions([baseline() for _ in range(self.stored)], take, case, policy=policy)


PAIRS = JudgingRule("pairs", "A/B in pairs")
# Two sessions are judged by the spread of processes, five by that of sessions.
RULES = (
    PAIRS,
    JudgingRule("stored-2", "2 stored sessions", 2),
    JudgingRule("stored-5", "5 stored sessions", 5),
    JudgingRule("stored-2-other", "2 of other runs", 2, other_runs=True),
    JudgingRule("stored-5-other", "5 of other runs", 5, other_runs=True),
)
