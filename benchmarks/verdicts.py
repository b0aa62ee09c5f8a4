"""How often do verdicts on speed cry wolf, and what do they find? A simulation of the rules, by the code that judges.

Nothing is measured here: times are drawn from a model of noise whose numbers are given on the command line. A session
has a level of its own (the day), a process too, and a few processes are bad: up to 30 % slower. Within a session the
machine drifts, evenly, by a slope that is drawn for it. `pytest suites --sdperf-selftest` draws the times that it has
measured, and measures the rates beside.

    python benchmarks/verdicts.py
    python benchmarks/verdicts.py --day=0.2 --process=0.28 --drift=0.3 --bad=0      # the process as on an H200
"""

from __future__ import annotations

import argparse

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, JudgingRule
from pytest_sdperf.plugin.selftest.noise import ModelNoise
from pytest_sdperf.plugin.selftest.power import Simulation

EFFECTS = (0.0, 0.02, 0.03, 0.05, 0.10)
CASE = Case("sd15", "unet", "ort-cuda", "fp16")
VERDICTS = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.HELD, Outcome.INCONCLUSIVE)


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
    noise = ModelNoise(asked.day / 100, asked.process / 100, asked.drift / 100, asked.bad / 100)
    policy = Policy(max_processes=asked.max_processes, cases=asked.cases)
    simulation = Simulation(noise, CASE, policy, trials=asked.trials, seed=asked.seed)
    print(f"noise: {noise}; {asked.trials} trials; seed {asked.seed}; {asked.cases} cases per run")
    for sessions in map(int, asked.sessions.split(",")) if asked.rule != "pairs" else ():
        title = f"stored baseline of {sessions} sessions, from {policy.processes} processes"
        table(title, JudgingRule(f"stored-{sessions}", title, sessions), simulation)
    if asked.rule != "stored":
        table("A/B, from 2 pairs", PAIRS, simulation)


if __name__ == "__main__":
    main()
