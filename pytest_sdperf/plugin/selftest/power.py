"""How often a rule would call a build slower, by drawing times and judging them with the code that judges."""

from __future__ import annotations

import collections
import functools
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values import Case, Sample
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.selftest.comparisons import Judged, JudgingRule, found_in
from pytest_sdperf.plugin.selftest.noise import Noise
from pytest_sdperf.plugin.selftest.rates import Rate

# Among these the smallest detectable effect is looked for.
STEPS = (0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08, 0.10, 0.12, 0.15, 0.20, 0.25, 0.30, 0.35)
STEPS_OF_A_CPU = (0.40, 0.50, 0.60, 0.80, 1.00)


@dataclass(frozen=True)
class Simulation:
    """Comparisons of drawn times.

    Attributes:
        noise: What moves the times.
        case: What is compared.
        policy: How strictly.
        trials: Comparisons for each rate.
        seed: Of the random numbers.
    """

    noise: Noise
    case: Case
    policy: Policy
    trials: int = 200
    seed: int = 1

    def outcomes(self, rule: JudgingRule, effect: float) -> tuple[collections.Counter[Outcome], float]:
        """Return how often each verdict was given on a slowdown, and the processes that one took on average."""
        draw = random.Random(f"{self.seed} {rule.name} {effect}")  # noqa: S311 - no secret is drawn
        judged = [self.comparison(rule, effect, draw) for _ in range(self.trials)]
        return collections.Counter(one.outcome for one in judged), sum(one.processes for one in judged) / len(judged)

    def comparison(self, rule: JudgingRule, effect: float, draw: random.Random) -> Judged:
        """Draw the times of one comparison and judge them."""
        baseline = functools.partial(self._stored, draw)
        # The stored sessions are drawn first: a level of its own belongs to the session that is judged, too.
        stored = [baseline() for _ in range(rule.stored)]
        times = self.noise.session(draw)

        def take(*, slowed: bool) -> Sample:
            return Sample((next(times) * (1 + effect * slowed),))

        return rule.judge(iter(stored).__next__, take, self.case, policy=self.policy)

    def _stored(self, draw: random.Random) -> list[Sample]:
        return [Sample((time,)) for time in itertools.islice(self.noise.session(draw), self.policy.processes)]

    def rate(self, rule: JudgingRule, effect: float) -> Rate:
        """Return how often a slowdown is found; of no slowdown, how often one build is called slower or faster."""
        found, _ = self.outcomes(rule, effect)
        return Rate(found_in(found, effect), self.trials)

    def detectable(self, rule: JudgingRule, goal: float, *, steps: Sequence[float] = ()) -> float | None:
        """Return the smallest step from which on a slowdown is found as often as `goal`; None if none is.

        Args:
            rule: The rule.
            goal: Share of comparisons.
            steps: Slowdowns, smallest first.
        """
        steps = steps or (*STEPS, *(STEPS_OF_A_CPU if self.policy.on_cpu else ()))
        low, high = 0, len(steps)
        while low < high:  # what finds a slowdown finds a larger one
            middle = (low + high) // 2
            if self.rate(rule, steps[middle]).share >= goal:
                high = middle
            else:
                low = middle + 1
        return steps[low] if low < len(steps) else None
