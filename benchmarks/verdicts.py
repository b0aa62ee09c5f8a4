"""How often do verdicts on speed cry wolf, and what do they find? A simulation of the rules, by the code that judges.

Nothing is measured here: times are drawn from a model of noise whose numbers are given on the command line. A session
has a level of its own (the day), a process too, and a few processes are bad: up to 30 % slower. Within a session the
machine drifts, evenly, by a slope that is drawn for it.

    python benchmarks/verdicts.py
    python benchmarks/verdicts.py --day=0.2 --process=0.28 --drift=0.3 --bad=0      # the process as on an H200
"""

from __future__ import annotations

import argparse
import collections
import functools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.judging.escalation import more_processes
from pytest_sdperf.judging.latency import judge_latency
from pytest_sdperf.judging.pairs import found_by
from pytest_sdperf.judging.policy import Policy
from pytest_sdperf.pairs import compare
from pytest_sdperf.values import Case, Measurement, Sample

EFFECTS = (0.0, 0.02, 0.03, 0.05, 0.10)
CASE = Case("sd15", "unet", "ort-cuda", "fp16")
PROCESSES_OF_A_DRIFT = 24
VERDICTS = {"slower": "REGRESSED", "faster": "IMPROVED", "same": "HELD", "open": "INCONCLUSIVE"}


@dataclass(frozen=True)
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

    def session(self, draw: random.Random, *, effect: Callable[[int], float]) -> Iterator[float]:
        """Yield process medians of one session without end, in seconds.

        Args:
            draw: Source of chance.
            effect: Relative slowness of each process, by its place in time.
        """
        level, slope = draw.gauss(0, self.day), draw.gauss(0, self.drift) / PROCESSES_OF_A_DRIFT
        place = 0
        while True:
            worse = draw.uniform(0, math.log(1.3)) if draw.random() < self.bad else 0.0
            log = level + slope * place + draw.gauss(0, self.process) + worse
            yield 0.02 * math.exp(log) * (1 + effect(place))
            place += 1


def sample(time_s: float) -> Sample:
    """Return what one process measured."""
    return Sample((time_s,))


def stored_rule(noise: Noise, draw: random.Random, *, effect: float, sessions: int, policy: Policy) -> tuple[str, int]:
    """Judge one new session by stored ones; return the verdict and the processes that it took."""
    kept = []
    for day in range(sessions):
        times = noise.session(draw, effect=lambda place: 0.0)
        samples = tuple(sample(next(times)) for _ in range(policy.processes))
        kept.append(Session(date=f"2026-11-{day + 1:02}T10:00Z", samples=samples))
    case = StoredCase(case=CASE, anchor=kept[0], sessions=tuple(kept))
    times, taken, more = noise.session(draw, effect=lambda place: effect), (), policy.processes
    while more:
        taken = (*taken, *(sample(next(times)) for _ in range(more)))
        measurement = Measurement(CASE, taken)
        more = more_processes(measurement, case, policy=policy, differences={})
    return judge_latency(measurement, case, policy=policy).outcome.value, len(taken)


def pairs_rule(noise: Noise, draw: random.Random, *, effect: float, policy: Policy) -> tuple[str, int]:
    """Judge B by A in pairs; return the verdict and the processes that it took."""
    looks, sides = policy.pair_looks, ([], [])
    order = (0, 1, 1, 0)
    times = noise.session(draw, effect=lambda place: effect * order[place % 4])
    for count in looks.counts:
        while len(sides[0]) < count or len(sides[1]) < count:
            sides[order[(len(sides[0]) + len(sides[1])) % 4]].append(next(times))
        found = found_by(policy, compare(*sides))
        if found != "open":
            break
    return VERDICTS[found], 2 * count


def rates(rule: Callable[[], tuple[str, int]], trials: int) -> tuple[collections.Counter[str], float]:
    """Return how often each verdict was given, and the processes that one took on average."""
    seen, processes = collections.Counter[str](), 0
    for _ in range(trials):
        verdict, taken = rule()
        seen[verdict] += 1
        processes += taken
    return seen, processes / trials


def table(title: str, rule: Callable[..., tuple[str, int]], asked: argparse.Namespace) -> None:
    """Print the verdicts of one rule on every effect."""
    print(f"\n{title}\n")
    print("| change | REGRESSED | IMPROVED | HELD | INCONCLUSIVE | processes |")
    print("|---|---|---|---|---|---|")
    draw = random.Random(asked.seed)
    for effect in EFFECTS:
        seen, processes = rates(functools.partial(rule, draw, effect=effect), asked.trials)
        shares = [f"{seen[name] / asked.trials:.4f}" for name in VERDICTS.values()]
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
    print(f"noise: {noise}; {asked.trials} trials; seed {asked.seed}; {asked.cases} cases per run")
    for sessions in map(int, asked.sessions.split(",")) if asked.rule != "pairs" else ():
        rule = functools.partial(stored_rule, noise, sessions=sessions, policy=policy)
        table(f"stored baseline of {sessions} sessions, from {policy.processes} processes", rule, asked)
    if asked.rule != "stored":
        table("A/B, from 2 pairs", functools.partial(pairs_rule, noise, policy=policy), asked)


if __name__ == "__main__":
    main()
