"""How often do verdicts on speed cry wolf, and what do they find? A simulation of the rules, by the code that judges.

Nothing is measured here: times are drawn from a model of noise whose numbers are given on the command line. A session
has a level of its own (the day), a process too, and a few processes are bad: up to 30 % slower. Within a session the
machine drifts, evenly, by a slope that is drawn for it. `pytest suites --sdperf-selftest` measures the rates.

    python benchmarks/verdicts.py
    python benchmarks/verdicts.py --day=0.2 --process=0.28 --drift=0.3 --bad=0      # the process as on an H200
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import math
import random
from collections.abc import Iterator

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values import Case, Sample
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, Judged, JudgingRule

EFFECTS = (0.0, 0.02, 0.03, 0.05, 0.10)
CASE = Case("sd15", "unet", "ort-cuda", "fp16")
VERDICTS = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.HELD, Outcome.INCONCLUSIVE)
PROCESSES_OF_A_DRIFT = 24


@dataclasses.dataclass(frozen=True)
class Noise:
    """What moves a time, as standard deviations of its logarithm.

    Attributes:
        day: Of the level of a session.
        process: Of a process in it.
        drift: Of the change over 24 processes, which is even.
        bad: Share of processes that are up to 30 % slower.
    """

    day: float
    process: float
    drift: float
    bad: float

    def session(self, draw: random.Random) -> Iterator[float]:
        """Yield process medians of one session without end, in seconds; the session has a level of its own."""
        level, slope = draw.gauss(0, self.day), draw.gauss(0, self.drift) / PROCESSES_OF_A_DRIFT
        for place in itertools.count():
            worse = draw.uniform(0, math.log(1.3)) if draw.random() < self.bad else 0.0
            yield 0.02 * math.exp(level + slope * place + draw.gauss(0, self.process) + worse)


@dataclasses.dataclass(frozen=True)
class Simulation:
    """Comparisons of drawn times.

    Attributes:
        noise: What moves the times.
        policy: How strictly they are judged.
        trials: Comparisons for each rate.
        seed: Of the random numbers.
    """

    noise: Noise
    policy: Policy
    trials: int
    seed: int

    def outcomes(self, rule: JudgingRule, effect: float) -> tuple[collections.Counter[Outcome], float]:
        """Return how often each verdict was given on a change, and the processes that one took on average."""
        draw = random.Random(f"{self.seed} {rule.name} {effect}")
        judged = [self._comparison(rule, effect, draw) for _ in range(self.trials)]
        return collections.Counter(one.outcome for one in judged), sum(one.processes for one in judged) / len(judged)

    def _comparison(self, rule: JudgingRule, effect: float, draw: random.Random) -> Judged:
        def stored() -> list[Sample]:
            return [Sample((time,)) for time in itertools.islice(self.noise.session(draw), self.policy.processes)]

        # The stored sessions are drawn first: a level of its own belongs to the session that is judged, too.
        baseline = iter([stored() for _ in range(rule.stored)])
        times = self.noise.session(draw)

        def take(*, slowed: bool) -> Sample:
            return Sample((next(times) * (1 + effect * slowed),))

        return rule.judge(baseline.__next__, take, CASE, policy=self.policy)


def table(title: str, rule: JudgingRule, simulation: Simulation) -> None:
    """Print the verdicts of one rule on every effect."""
    print(f"\n{title}\n")
    print(f"| change | {' | '.join(verdict.value for verdict in VERDICTS)} | processes |")
    print("|---|---|---|---|---|---|")
    for effect in EFFECTS:
        seen, processes = simulation.outcomes(rule, effect)
        shares = [f"{seen[verdict] / simulation.trials:.4f}" for verdict in VERDICTS]
        print(f"| {effect:+.0%} | {' | '.join(shares)} | {processes:.1f} |", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line; noise is in percent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1, help="measurements of one run")
    parser.add_argument("--max-processes", type=int, default=12)
    parser.add_argument("--day", type=float, default=1.0, help="in percent")
    parser.add_argument("--process", type=float, default=0.8, help="in percent")
    parser.add_argument("--drift", type=float, default=2.0, help="in percent over 24 processes")
    parser.add_argument("--bad", type=float, default=0.0, help="percent of processes that are up to 30 %% slower")
    parser.add_argument("--sessions", default="2,3,5,10", help="stored sessions, one table each")
    parser.add_argument("--rule", choices=("both", "pairs", "stored"), default="both")
    return parser.parse_args()


def main() -> None:
    """Print a table per rule."""
    asked = arguments()
    noise = Noise(asked.day / 100, asked.process / 100, asked.drift / 100, asked.bad / 100)
    policy = Policy(max_processes=asked.max_processes, cases=asked.cases)
    simulation = Simulation(noise, policy, trials=asked.trials, seed=asked.seed)
    print(f"noise: {noise}; {asked.trials} trials; seed {asked.seed}; {asked.cases} cases per run")
    for sessions in map(int, asked.sessions.split(",")) if asked.rule != "pairs" else ():
        title = f"stored baseline of {sessions} sessions, from {policy.processes} processes"
        table(title, JudgingRule(f"stored-{sessions}", title, sessions), simulation)
    if asked.rule != "stored":
        table("A/B, from 2 pairs", PAIRS, simulation)


if __name__ == "__main__":
    main()
