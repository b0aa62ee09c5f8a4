"""Is a resolution slower while resolutions take turns than it is alone?"""

from __future__ import annotations

import dataclasses
import math
from statistics import geometric_mean

from pytest_sdperf.checks.ab.pairs import REPORTED, found_by, judge_ratio
from pytest_sdperf.checks.judging.fitness import ended, invalid, machine_not_fit, no_memory
from pytest_sdperf.checks.judging.messages import opening
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.stats.pairs import Ratio, compare
from pytest_sdperf.core.units import above_or_below, percent, plural, seconds, share
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.core.values.replays import Interleaving

METRIC = "interleaving"
_CODES = {
    "pairs-slower": "turns-slower",
    "pairs-faster": "turns-same",  # nobody is harmed by a call that is faster after another one
    "pairs-same": "turns-same",
    "pairs-small-on-cpu": "turns-small-on-cpu",
    "pairs-too-noisy": "turns-too-noisy",
}


# Nothing is stored of it: a resolution is judged by itself alone.
_ALONE = {Outcome.REGRESSED: Outcome.FAILED, Outcome.IMPROVED: Outcome.PASSED, Outcome.HELD: Outcome.PASSED}


def judge_interleaving(found: Interleaving, case: Case, *, policy: Policy) -> Verdict:
    """Judge the times of every resolution; the worst of them is the verdict, and the details have all."""
    what = f"{opening(case)} latency"
    if found.health:
        return machine_not_fit(found.health, metric=METRIC)
    if found.failure is not None:
        no_room = found.failure.reason == "oom"
        return no_memory(found.failure.message, metric=METRIC) if no_room else ended(found.failure, metric=METRIC)
    bad = [time for side in (found.alone_s, found.turns_s) for times in side.values() for time in times]
    if not found.pairs or not all(math.isfinite(time) and time > 0 for time in bad):
        sentence = f"{what} was not taken at every resolution, or is not above zero."
        return invalid("latency-not-positive", sentence, metric=METRIC)
    if found.prepared.get("later"):
        sentence = (
            f"{opening(case)}: {case.engine} compiled {plural(found.prepared['later'], 'graph')} again in the timed "
            f"calls, for resolutions that it had served before."
        )
        return Verdict(Outcome.FAILED, "compiled-again", sentence, METRIC, found.prepared["later"], 0)
    shared = _shared(found, policy)
    verdicts = [_at(name, found, what, shared) for name in found.turns_s]
    worst = max(verdicts, key=lambda verdict: (verdict.outcome.rank, (verdict.obtained or 0) / (verdict.expected or 1)))
    return dataclasses.replace(worst, details=tuple(_line(name, found) for name in found.turns_s))


def more_pairs(found: Interleaving, *, policy: Policy) -> int:
    """Return how many more pairs to measure before they are judged again; 0 if the verdict is settled."""
    more, shared = policy.pair_analyses.more(found.pairs), _shared(found, policy)
    open_ = any(found_by(shared, ratio_at(name, found)) == "open" for name in found.turns_s)
    return more if more and open_ and not found.prepared.get("later") else 0


def ratio_at(name: str, found: Interleaving) -> Ratio:
    """Return how much slower a resolution is in turns."""
    return compare(found.alone_s[name], found.turns_s[name])


def _shared(found: Interleaving, policy: Policy) -> Policy:
    """Return the policy of one resolution: of several each gets an equal part of the error rate."""
    return dataclasses.replace(policy, cases=policy.cases * max(len(found.turns_s), 1))


def _at(name: str, found: Interleaving, what: str, policy: Policy) -> Verdict:
    ratio = ratio_at(name, found)
    outcome, pairs_code = judge_ratio(ratio, policy=policy)
    outcome = _ALONE.get(outcome, outcome)
    code, effect, wider = _CODES[pairs_code], policy.latency_effect, policy.why_wider(ratio.ratio)
    alone, turns = geometric_mean(found.alone_s[name]), geometric_mean(found.turns_s[name])
    low, high = ratio.ends(REPORTED)
    known = f"95 % interval {percent(low)} to {percent(high)}, {plural(found.pairs, 'pair')}"
    compared = f"{what} at {name} in turns {seconds(turns)} is {above_or_below(ratio.ratio)} {seconds(alone)} alone"
    sentence = {
        "turns-slower": f"{compared} ({known}){wider}.",
        "turns-same": f"{compared}, not slower by {share(effect)} ({known}){wider}.",
        "turns-small-on-cpu": f"{compared} ({known}), but {policy.why_small_passes}.",
        "turns-too-noisy": f"{compared} ({known}): neither a change of {share(effect)} nor its absence is certain"
        f"{wider}.",
    }[code]
    return Verdict(outcome, code, sentence, METRIC, turns, alone, None, alone * (1 + effect))


def _line(name: str, found: Interleaving) -> str:
    alone, turns = geometric_mean(found.alone_s[name]), geometric_mean(found.turns_s[name])
    low, high = ratio_at(name, found).ends(REPORTED)
    return f"{name}: {seconds(turns)} in turns, {seconds(alone)} alone ({percent(low)} to {percent(high)})"
