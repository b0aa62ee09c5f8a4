"""What one test found out about one case. It travels from the test to the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import worst
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.tolerances import Override
from pytest_sdperf.core.values import Case, Measurement
from pytest_sdperf.core.values.check import CheckReport
from pytest_sdperf.core.values.located import Located
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.fusing.explain import Explanation


@dataclass(frozen=True)
class CaseReport:
    """One test's result.

    Attributes:
        nodeid: The test.
        case: What it tested.
        measurement: What was measured; None if the test measured nothing.
        agreements: What was compared with a reference.
        verdicts: What it means.
        counts: `domain::op_type` -> nodes that a test of fusions found; empty for other tests.
        targets: The same -> how many there can be; 0 means that none may be left.
        optimizations: Component -> optimization -> how it stands, of graphs that were taken as they are; empty for
            others.
        explanation: Where these were expected, and why they are not there; None where nobody asked for it.
        policy: How strictly the measurement was judged; None where nothing was measured.
        problem: Why the test failed where no verdict says it (a failed assertion); empty otherwise.
        pairs: What an A/B measured instead of `measurement`.
        overrides: Tolerances of this case that differ from all others; `policy` has them in.
        located: Where a disagreement begins; None where nobody had to look.
        other: What side B of an A/B is, where its outputs were compared with a reference, beside those of side A or
            alone; registered checks are then about it.
        checks: Name of a registered check -> what it found out.
        left_out: What the test could not look at (`agreement`, `drift`, ...) -> why; the rest stands.
    """

    nodeid: str
    case: Case
    measurement: Measurement | None = None
    agreements: tuple[Agreement, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, int] = field(default_factory=dict)
    optimizations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    explanation: Explanation | None = None
    policy: Policy | None = None
    problem: str = ""
    pairs: Pairs | None = None
    overrides: tuple[Override, ...] = ()
    located: Located | None = None
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

    @property
    def looked_at(self) -> tuple[Case, str]:
        """The case of registered checks, and the side of an A/B that it is; empty for none."""
        return (self.case, "") if self.other is None else (self.other, "B")

    @property
    def disagreements(self) -> tuple[Agreement, ...]:
        """What is too far from its reference; where that is side A of an A/B alone, a verdict says it instead."""
        wrong = tuple(one for one in self.agreements if not one.passed)
        only_a = {one.side for one in wrong} == {"A"} and any(one.side == "B" for one in self.agreements)
        return () if only_a else wrong

    @property
    def outcome(self) -> Outcome | None:
        """The worst verdict, that on its agreements included; None where the test was not there to judge anything."""
        compared = self.disagreements or tuple(one for one in self.agreements if one.passed)
        outcomes = [*(verdict.outcome for verdict in self.verdicts), *(one.outcome for one in compared)]
        return worst(outcomes) if outcomes else None

    def has(self, *outcomes: Outcome) -> bool:
        """Whether a verdict is one of these."""
        return any(verdict.outcome in outcomes for verdict in self.verdicts)

    def verdict(self, metric: str) -> Verdict | None:
        """Return the worst verdict on a metric; None if there is none."""
        about = [verdict for verdict in self.verdicts if verdict.metric == metric]
        return max(about, key=lambda verdict: verdict.outcome.rank, default=None)
