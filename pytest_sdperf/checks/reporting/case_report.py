"""What one test found out about one case. It travels from the test to the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import worst
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.tolerances import Override
from pytest_sdperf.core.values import Case, Measurement
from pytest_sdperf.core.values.check import CheckReport, CheckRow
from pytest_sdperf.core.values.outcomes import Outcome, Verdict


@dataclass(frozen=True)
class CaseReport:
    """One test's result.

    Attributes:
        nodeid: The test.
        case: What it tested.
        measurement: What was measured; None if the test measured nothing.
        verdicts: What it means.
        optimizations: Component -> optimization -> how it stands, of graphs that were taken as they are; empty for
            others.
        policy: How strictly the measurement was judged; None where nothing was measured.
        problem: Why the test failed where no verdict says it (a failed assertion); empty otherwise.
        pairs: What an A/B measured instead of `measurement`.
        overrides: Tolerances of this case that differ from all others; `policy` has them in.
        other: What side B of an A/B is, where registered checks looked at it, beside side A or alone.
        checks: Name of a registered check -> what it found out.
        left_out: What the test could not look at (`agreement`, `drift`, ...) -> why; the rest stands.
    """

    nodeid: str
    case: Case
    measurement: Measurement | None = None
    verdicts: tuple[Verdict, ...] = ()
    optimizations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    policy: Policy | None = None
    problem: str = ""
    pairs: Pairs | None = None
    overrides: tuple[Override, ...] = ()
    other: Case | None = None
    checks: Mapping[str, CheckReport] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether the test came to measure something."""
        return self.measurement is not None or self.pairs is not None

    @property
    def measurements(self) -> Mapping[str, Measurement]:
        """Side -> what was measured of it; a measurement that no side stands beside has an empty name."""
        if self.pairs is not None:
            return self.pairs.sides
        return {} if self.measurement is None else {"": self.measurement}

    def case_of(self, side: str) -> Case:
        """Return what a side of an A/B is: `B` is another case; an empty name is the case itself, as `A` is."""
        beside = self.other or (self.pairs.b.case if self.pairs is not None else None)
        return beside if side == "B" and beside is not None else self.case

    def looked_at_by(self, row: CheckRow) -> tuple[Case, str]:
        """Return the case of a registered check's row, and the side of an A/B that it is; empty for none."""
        side = row.side or ("" if self.other is None else "B")
        return self.case_of(side), side

    @property
    def outcome(self) -> Outcome | None:
        """The worst verdict; None where the test was not there to judge anything."""
        outcomes = [verdict.outcome for verdict in self.verdicts]
        return worst(outcomes) if outcomes else None

    def has(self, *outcomes: Outcome) -> bool:
        """Whether a verdict is one of these."""
        return any(verdict.outcome in outcomes for verdict in self.verdicts)

    def verdict(self, metric: str) -> Verdict | None:
        """Return the worst verdict on a metric; None if there is none."""
        about = [verdict for verdict in self.verdicts if verdict.metric == metric]
        return max(about, key=lambda verdict: verdict.outcome.rank, default=None)
