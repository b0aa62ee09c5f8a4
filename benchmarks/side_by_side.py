"""How other tools would have judged the same recorded samples: false alarms and power of each rule, next to ours.

    python benchmarks/side_by_side.py baselines/a100-sxm4-40gb.json ...

Every stored session of every case, from the second on, is judged by the sessions before it: once as it was recorded,
where each alarm is a false one as long as the files hold the sessions of one build, and once with all its times made
longer, where each alarm is right. Samples are real; the slowdown is arithmetic. The rules:

- pytest-benchmark: `--benchmark-compare-fail=mean:5%`, the mean of one process against that of the last session.
- Mann-Whitney: the calls of all processes against those of the last session, p < 0.05, as tools do that take calls for
  replicates.
- 25 %: the median of one process against that of the last session, as tools do that never want to be wrong.
- ours: the medians of the processes against all sessions before, by `Latency`. A file whose name begins with
  `cpu-` is judged as a CPU is: only changes above 30 % count.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_sdperf.baselines.stored import Session, StoredCase, read
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.latency import LATENCY
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.selftest.rates import Rate

SLOWDOWNS = (0.0, 0.02, 0.03, 0.05, 0.10, 0.30)


@dataclass(frozen=True)
class Comparison:
    """One session and what was stored before it.

    Attributes:
        before: The case with its earlier sessions.
        now: The session.
        on_cpu: Whether a CPU measured it.
    """

    before: StoredCase
    now: Session
    on_cpu: bool

    @property
    def both(self) -> tuple[Session, Session]:
        """The session and the one before it."""
        return self.now, self.before.last

    def slower(self, change: float) -> Comparison:
        """Return the comparison with a session whose every time is longer."""
        samples = tuple(
            dataclasses.replace(sample, iterations_s=tuple(time * (1 + change) for time in sample.iterations_s))
            for sample in self.now.samples
        )
        return dataclasses.replace(self, now=msgspec.structs.replace(self.now, samples=samples))


def by_mean(this: Comparison) -> bool:
    """Judge as `pytest-benchmark` does with `mean:5%`."""
    new, old = (statistics.fmean(session.samples[0].iterations_s) for session in this.both)
    return new > 1.05 * old


def by_ranks(this: Comparison) -> bool:
    """Judge by the ranks of all calls."""
    from scipy import stats

    calls = [[time for sample in session.samples for time in sample.iterations_s] for session in this.both]
    return bool(stats.mannwhitneyu(*calls, alternative="greater").pvalue < 0.05)


def by_a_quarter(this: Comparison) -> bool:
    """Judge by the median of one process."""
    new, old = (session.samples[0].median_s for session in this.both)
    return new > 1.25 * old


def ours(this: Comparison) -> bool:
    """Judge as this suite does, by as many processes as were recorded."""
    measurement = Measurement(this.before.case, this.now.samples, subject=this.now.subject)
    policy = Policy(on_cpu=this.on_cpu, processes=len(this.now.samples))
    return LATENCY.judge(measurement, this.before, policy=policy).outcome is Outcome.REGRESSED


RULES: dict[str, Callable[[Comparison], bool]] = {
    "pytest-benchmark mean:5%": by_mean,
    "Mann-Whitney on calls": by_ranks,
    "+25 %": by_a_quarter,
    "ours": ours,
}


def comparisons(files: Sequence[Path]) -> Iterator[Comparison]:
    """Yield every stored session that has one before it."""
    for path in files:
        baseline, on_cpu = read(path), path.name.startswith("cpu-")
        for stored in baseline.cases.values() if baseline else ():
            sessions = [session for session in stored.level("latency") if session.samples]
            for number in range(1, len(sessions)):
                before = msgspec.structs.replace(stored, sessions=tuple(sessions[:number]))
                yield Comparison(before, sessions[number], on_cpu)


def told(rate: Rate) -> str:
    """Return a rate with its 95 % interval."""
    low, high = rate.interval
    return f"{rate.share:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="baseline files")
    found = list(comparisons(parser.parse_args().files))
    if not found:
        parser.error("no case of these files has two sessions; record some with --sdperf-update-baselines")
    print(f"{len(found)} comparisons: share of alarms, with 95 % intervals\n")
    print(f"| rule | {' | '.join(f'{change:+.0%}' for change in SLOWDOWNS)} |")
    print(f"|---|{'---|' * len(SLOWDOWNS)}")
    for name, rule in RULES.items():
        alarms = [sum(rule(one.slower(change)) for one in found) for change in SLOWDOWNS]
        print(f"| {name} | {' | '.join(told(Rate(count, len(found))) for count in alarms)} |")


if __name__ == "__main__":
    main()
