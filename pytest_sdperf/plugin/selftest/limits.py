"""From which change on a time may fail: what the self-tests of a machine have shown to be told apart there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.units import plural, share
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, JudgingRule
from pytest_sdperf.plugin.selftest.records import RuleCounts, SelfTests
from pytest_sdperf.plugin.selftest.schedule import CPU_EFFECTS
from pytest_sdperf.plugin.selftest.spread import spread_by, with_spread

# A rate of false alarms that is surely not above this is low enough: what a whole run may have.
MOST_ALARMS = 0.05
# And a slowdown above the limit must surely be found this often.
LEAST_FOUND = 0.80


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a self-test has shown.

    Attributes:
        limit: Smallest change that may fail.
        text: What that rests on.
    """

    limit: float
    text: str


@dataclasses.dataclass(frozen=True)
class InForce:
    """How users' runs are judged on a machine until now: each rule may have a limit of its own.

    Attributes:
        pairs: By the other side of an A/B.
        stored: By a baseline.
    """

    pairs: Policy
    stored: Policy

    def of(self, rule: JudgingRule) -> Policy:
        """Return the policy of a rule."""
        return self.pairs if rule == PAIRS else self.stored

    def rows(self, rule: JudgingRule, rows: Iterable[RuleCounts]) -> dict[float, RuleCounts]:
        """Return slowdown -> what a rule made of it, at the limit that is in force."""
        limit = self.of(rule).latency_effect
        return {row.effect: row for row in rows if (row.rule, row.limit) == (rule.name, limit)}


def kind_of(case: Case) -> tuple[object, ...]:
    """Return what cases have in common for which one self-test speaks: the engine, and whether requests are whole."""
    return case.engine, case.engine_options, case.component == PIPELINE


def by_self_tests(policy: Policy, case: Case, tested: Iterable[SelfTests], *, pairs: bool) -> Policy:
    """Return a policy with what the self-tests of a machine have shown.

    On a CPU that is the lowest limit that they allow, on a GPU a smallest effect that is not under their spread.

    Args:
        policy: As it was asked for.
        case: What is judged.
        tested: Self-tests of this very machine.
        pairs: Whether it is judged in pairs, and not by a baseline.
    """
    if policy.on_cpu:
        return with_limit(policy, shown_for(case, tested, pairs=pairs))
    speaking = _speaking(case, tested)
    return with_spread(policy, (spread_by(one, processes=policy.processes, pairs=pairs) for one in speaking))


def shown_for(case: Case, tested: Iterable[SelfTests], *, pairs: bool) -> Shown | None:
    """Return the lowest limit that the self-tests of a machine allow for a case; None if they allow none.

    Args:
        case: What is judged.
        tested: Self-tests of this very machine.
        pairs: Whether it is judged in pairs, and not by a baseline.
    """
    found = [shown_by(one, pairs=pairs) for one in _speaking(case, tested)]
    # Without one of its own, the self-test that allows least speaks for a case.
    return max(filter(None, found), key=lambda one: one.limit) if found and all(found) else None


def _speaking(case: Case, tested: Iterable[SelfTests]) -> list[SelfTests]:
    """Return the self-tests that speak for a case: its own, or else those of its kind."""
    alike = [one for one in tested if kind_of(one.case) == kind_of(case)]
    return [one for one in alike if one.case == case] or alike


def shown_by(tested: SelfTests, *, pairs: bool) -> Shown | None:
    """Return the lowest limit that the self-tests of one case allow; None if they allow none.

    At the limit, no comparison of a build with itself raised an alarm, of enough of them to say that few would; and the
    next larger slowdown that was injected was found. Stored sessions are of other days, so there only comparisons with
    other runs of the self-test count.
    """
    for limit in sorted({row.limit for row in tested.rows}):
        rows = [row for row in tested.rows if row.limit == limit and (row.rule == PAIRS.name) == pairs]
        counting = [row for row in rows if pairs or row.rule.endswith("-other")]
        same = _most([row for row in counting if not row.effect])
        slowed = _most([row for row in counting if row.effect == next_effect(limit)])
        if same is None or slowed is None or any(row.found for row in rows if not row.effect):
            continue
        if same.rate.interval[1] <= MOST_ALARMS and slowed.rate.interval[0] >= LEAST_FOUND:
            return Shown(limit, _text(tested, same, slowed))
    return None


def next_effect(limit: float) -> float:
    """Return the smallest injected slowdown above a limit."""
    return min((effect for effect in CPU_EFFECTS if effect > limit), default=CPU_EFFECTS[-1])


def with_limit(policy: Policy, shown: Shown | None) -> Policy:
    """Return a policy with the limit that a self-test has shown, where that is lower."""
    if shown is None or not policy.on_cpu or shown.limit >= policy.cpu_min_effect:
        return policy
    return dataclasses.replace(policy, cpu_min_effect=shown.limit, self_test_passed=True, self_test=shown.text)


def _most(rows: list[RuleCounts]) -> RuleCounts | None:
    return max(rows, key=lambda row: row.comparisons, default=None)


def _text(tested: SelfTests, same: RuleCounts, slowed: RuleCounts) -> str:
    return (
        f"its self-test of {tested.runs[-1].date[:10]} raised no alarm in {plural(same.comparisons, 'comparison')} of "
        f"one build with itself, and found +{share(slowed.effect)} in {slowed.found} of {slowed.comparisons}"
    )
