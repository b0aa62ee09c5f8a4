"""Is the second side of an A/B slower than the first? Pairs need no baseline."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence

from pytest_sdperf.checks.judging.fitness import invalid, unfit
from pytest_sdperf.checks.judging.messages import opening
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.latency import LATENCY
from pytest_sdperf.checks.pipelines.judging.memory import PEAKS, Peak, more_than
from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.stats.pairs import Finding, Pairs, Ratio, compare, finding
from pytest_sdperf.core.units import above_or_below, megabytes, percent, plural, seconds, share
from pytest_sdperf.core.values import Case, Measurement
from pytest_sdperf.core.values.check import CheckReport
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

# Confidence of each end of the interval that is reported.
REPORTED = 0.975
# Codes of a side A that cannot be compared with.
SIDE_A_DEFECT, SIDE_A_DISAGREES = "side-a-defect", "side-a-disagrees"


def judge_pairs(pairs: Pairs, *, policy: Policy, a_disagrees: bool = False) -> tuple[Verdict, ...]:
    """Judge side B by side A: its latency, if both have samples its peak memory, and what ran of each side by itself.

    A side A that has a defect proves nothing of side B: nothing is judged by it then, and what B did by itself is.

    Args:
        pairs: What was measured.
        policy: How strictly.
        a_disagrees: Whether the outputs of side A are known to be too far from their reference.

    Returns:
        One verdict per metric, of what ran one per side; latency first, which names both sides in its details.
    """
    problem, ran = next(_problems(pairs, policy=policy), None), _runtime_report(pairs, policy=policy)
    if problem:
        compared = [problem]
    elif a_disagrees or any(map(_is_defect, ran["A"])):
        why = "disagrees with its reference" if a_disagrees else "has a defect of its own"
        compared = [_not_judged(pairs, why), *map(_as_invalid, ran["A"]), *ran["B"]]
    else:
        compared = [*_compared(pairs, policy=policy), *ran["A"], *ran["B"]]
    first, *rest = compared
    return (dataclasses.replace(first, details=sides(pairs)), *rest)


def _compared(pairs: Pairs, *, policy: Policy) -> Iterator[Verdict]:
    """Yield how B stands to A: its latency, and its memory where neither side ran out of it."""
    out_of_memory = _out_of_memory(pairs)
    yield out_of_memory or _latency(pairs, policy=policy)
    if out_of_memory is None:
        yield from filter(None, (_memory(pairs, peak, policy=policy) for peak in PEAKS.values()))


def _is_defect(verdict: Verdict) -> bool:
    """Whether what is said of a side by itself makes its times no times of what was asked for."""
    return verdict.outcome in (Outcome.INVALID, Outcome.FAILED)


def _not_judged(pairs: Pairs, why: str) -> Verdict:
    sentence = (
        f"{opening(pairs.a.case)} latency and memory of B are not judged: side A, which they would be judged by, "
        f"{why}. Correct A, or compare with another one."
    )
    return invalid(SIDE_A_DEFECT, sentence, metric=LATENCY.name)


def _as_invalid(verdict: Verdict) -> Verdict:
    """Return what is wrong with side A as what it is to an A/B, in which B is tested: it cannot be compared with."""
    return dataclasses.replace(verdict, outcome=Outcome.INVALID) if _is_defect(verdict) else verdict


def of_sides(told: Mapping[str, tuple[CheckReport, Verdict]]) -> tuple[CheckReport, tuple[Verdict, ...]]:
    """Put together what a check says of the sides that it looked at: B is tested, and A has to be right as well.

    Args:
        told: `A`, `B`, or an empty name where there are no sides -> what was found out, and what it means.
    """
    if len(told) == 1:
        ((side, (report, verdict)),) = told.items()
        return report, (of_side(side, verdict) if side else verdict,)
    found = {side: report for side, (report, _) in told.items()}
    report = dataclasses.replace(
        found["B"],
        finding={side: one.finding for side, one in found.items()},
        rows=tuple(dataclasses.replace(row, side=side) for side, one in found.items() for row in one.rows),
        legend=tuple(dict.fromkeys(text for one in found.values() for text in one.legend)),
    )
    verdicts = {side: verdict for side, (_, verdict) in told.items()}
    if [side for side, verdict in verdicts.items() if verdict.outcome is Outcome.FAILED] == ["A"]:
        return report, (_side_a_disagrees(verdicts["A"]),)
    return report, tuple(of_side(side, verdict) for side, verdict in verdicts.items())


def _side_a_disagrees(verdict: Verdict) -> Verdict:
    """Return what it means for an A/B that side A alone FAILED a check."""
    sentence = (
        f"{verdict.sentence} Side B agrees with its reference, but a comparison with such a side A proves nothing. "
        f"Correct A, or compare with another one."
    )
    wrong = Verdict(Outcome.INVALID, SIDE_A_DISAGREES, sentence, verdict.metric, details=verdict.details)
    return of_side("A", wrong)


def more_pairs(pairs: Pairs, *, policy: Policy, a_disagrees: bool = False) -> int:
    """Return how many more pairs to measure before they are judged again; 0 if the verdict is settled."""
    more = policy.pair_analyses.more(pairs.count)
    if not more or pairs.a.out_of_memory or pairs.b.out_of_memory or next(_problems(pairs, policy=policy), None):
        return 0
    if a_disagrees or any(map(_is_defect, _runtime_report(pairs, policy=policy)["A"])):
        return 0  # nothing is judged by such a side
    return more if found_by(policy, ratio_of(pairs)) == "open" else 0


def ratio_of(pairs: Pairs) -> Ratio:
    """Return how much slower B is."""
    return compare(pairs.a.medians_s, pairs.b.medians_s)


def sides(pairs: Pairs) -> tuple[str, str]:
    """Return one line per side: what it ran, with the versions and settings that the worker saw."""
    names = (f"A: {_side(pairs.a, pairs.pythons[0])}", f"B: {_side(pairs.b, pairs.pythons[1])}")
    return names[0], f"{names[1]}; {'one build for both' if pairs.shared else 'each with its own build'}"


def center(side: Measurement) -> float:
    """Return the geometric mean of the process medians, whose ratio is that of the sides."""
    return statistics.geometric_mean(side.medians_s)


def label(case: Case) -> str:
    """Return what a side runs: `ort-cpu:threads=1 at fp16`."""
    return f"{engine_label(case.engine, case.engine_options)} at {case.optimization}"


def _side(measurement: Measurement, python: str) -> str:
    versions = [f"{name} {version}" for name, version in measurement.subject.items()]
    return ", ".join([label(measurement.case), *versions, *([f"under {python}"] if python else [])])


def _problems(pairs: Pairs, *, policy: Policy) -> Iterator[Verdict]:
    """Yield why the pairs cannot be judged."""
    for name, side in pairs.sides.items():
        other, fewest = pairs.b if name == "A" else pairs.a, policy.pair_analyses.counts[0]
        if other.out_of_memory and side.failure is None:
            fewest = len(side.samples)  # it ended early because of the other one
            if not fewest:
                continue
        problem = unfit(side, None, policy=dataclasses.replace(policy, processes=fewest), differences={})
        if problem is not None:
            yield of_side(name, problem)
    calls = [{sample.unet_calls for sample in side.samples} for side in (pairs.a, pairs.b)]
    if calls[0] and calls[1] and calls[0] != calls[1]:
        a, b = (" and ".join(map(str, sorted(found))) for found in calls)
        yield invalid("unet-calls-differ", f"Side A made {a} UNet calls and side B {b}, so it is not the same work.")


def of_side(name: str, verdict: Verdict) -> Verdict:
    """Return a verdict that says of which side it is."""
    return dataclasses.replace(verdict, sentence=f"Side {name}: {verdict.sentence}", side=name)


def _runtime_report(pairs: Pairs, *, policy: Policy) -> Mapping[str, Sequence[Verdict]]:
    """Judge what ran of each side: a time of something else than was asked for is no time of that side."""
    ran = [metric for metric in OURS.values() if not metric.leveled]
    return {
        name: [of_side(name, found) for one in ran if (found := one.judge(side, None, policy=policy))]
        for name, side in pairs.sides.items()
    }


def _out_of_memory(pairs: Pairs) -> Verdict | None:
    what = f"{opening(pairs.a.case)} latency"
    if pairs.a.out_of_memory and pairs.b.out_of_memory:
        return Verdict(Outcome.HELD, "oom-on-both-sides", f"{what} is OOM on both sides.", LATENCY.name)
    if pairs.b.out_of_memory:
        took = f"A took {seconds(center(pairs.a))}" if pairs.a.samples else "A had enough"
        sentence = f"{what} of B is OOM: the device ran out of memory where {took}."
        return Verdict(Outcome.REGRESSED, "oom-instead-of-number", sentence, LATENCY.name)
    if pairs.a.out_of_memory:
        took = f"B takes {seconds(center(pairs.b))}" if pairs.b.samples else "B has enough"
        sentence = f"{what} of A is OOM: the device ran out of memory where {took}."
        return Verdict(Outcome.IMPROVED, "number-instead-of-oom", sentence, LATENCY.name)
    return None


def _memory(pairs: Pairs, peak: Peak, *, policy: Policy) -> Verdict | None:
    """Compare one of the peaks; None where a CPU machine, or the allocators, can tell it of neither side."""
    metric, what = peak.name, f"{opening(pairs.a.case)} {peak.title} of B"
    a, b = ([peak.extract(sample) or 0 for sample in side.samples] for side in (pairs.a, pairs.b))
    if not any((*a, *b)) and (policy.on_cpu or peak.of):
        return None
    if min(*a, *b) <= 0:
        return invalid("memory-missing", f"{what} or of A is missing from a sample.", metric=metric)
    sources = {peak.source_of(sample) for side in (pairs.a, pairs.b) for sample in side.samples}
    if len(sources) > 1:
        told = " and ".join(sorted(source or "unknown" for source in sources))
        return invalid("memory-source-changed", f"{what} cannot be compared with A's: {told} memory.", metric=metric)
    obtained, expected = min(b), min(a)
    reach = policy.memory_reach(expected, *sources)
    outcome, code = Outcome.HELD, "pairs-same-memory"
    if abs(obtained - expected) > reach:
        more = obtained > expected
        outcome, code = (Outcome.REGRESSED, "pairs-more-memory") if more else (Outcome.IMPROVED, "pairs-less-memory")
    compared = f"{megabytes(obtained)} is {above_or_below(obtained / expected)} A's {megabytes(expected)}"
    sentence = f"{what} {compared} (changes up to {megabytes(reach)} do not count){more_than(expected + reach, b)}."
    return Verdict(outcome, code, sentence, metric, obtained, expected, expected - reach, expected + reach)


def found_by(policy: Policy, found: Ratio) -> Finding:
    """Return what pairs say of their ratio at this interim analysis, with its share of the error rates."""
    part = policy.pair_analyses.share(len(found.differences))
    return finding(
        found, effect=policy.latency_effect, alpha=policy.error_rate * part, beta=policy.same_error_rate * part
    )


def judge_ratio(found: Ratio, *, policy: Policy) -> tuple[Outcome, str]:
    """Return the outcome and the reason code of a ratio at this interim analysis."""
    result = found_by(policy, found)
    if result == "slower":
        return Outcome.REGRESSED, "pairs-slower"
    if result == "faster":
        return Outcome.IMPROVED, "pairs-faster"
    if policy.on_cpu and found_by(dataclasses.replace(policy, cpu_min_effect=0.0), found) == "slower":
        return Outcome.INCONCLUSIVE, "pairs-small-on-cpu"
    return (Outcome.HELD, "pairs-same") if result == "same" else (Outcome.INCONCLUSIVE, "pairs-too-noisy")


def _latency(pairs: Pairs, *, policy: Policy) -> Verdict:
    found = ratio_of(pairs)
    a, b = center(pairs.a), center(pairs.b)
    what = f"{opening(pairs.a.case)} latency of B"
    low, high = found.ends(REPORTED)
    signs = f"permutation p {found.permutation_p:.2g}"
    compared = f"{what} {seconds(b)} is {above_or_below(found.ratio)} A's {seconds(a)}"
    known = f"95 % interval {percent(low)} to {percent(high)}, {plural(pairs.count, 'pair')}, {signs}"
    effect, wider = policy.latency_effect, policy.why_wider(found.ratio)
    outcome, code = judge_ratio(found, policy=policy)
    sentence = {
        "pairs-slower": f"{compared} ({known}){wider}.",
        "pairs-faster": f"{compared} ({known}){wider}.",
        "pairs-small-on-cpu": f"{compared} ({known}), but {policy.why_small_passes}.",
        "pairs-same": f"{compared}, no change of {share(effect)} ({known}){wider}.",
        "pairs-too-noisy": f"{compared} ({known}): neither a change of {share(effect)} nor its absence is certain"
        f"{wider}.",
    }[code]
    return Verdict(outcome, code, sentence, LATENCY.name, b, a, a / (1 + effect), a * (1 + effect))
