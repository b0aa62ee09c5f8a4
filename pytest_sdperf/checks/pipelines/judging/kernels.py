"""Does the GPU still run the same kernels? Counts hardly vary, and a kind that is lost names a cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.units import plural, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.tasks.sampling.kernels import ATTENTIONS, KINDS, MATH

METRIC = "kernels"
# Fewer of these is a loss even where the whole got smaller: each does what several plain kernels do otherwise.
_FUSED = tuple(kind for kind in ATTENTIONS if kind != MATH)
# None left of these is a loss; how many there are is up to the search for algorithms.
_NEEDED = ("convolution-nhwc", "gemm")

Counts = Mapping[str, int]


def counts_of(sample: Sample) -> dict[str, int]:
    """Return the launches of each kind in one call; empty where nothing could tell."""
    return {kind: int(entry["count"]) for kind, entry in sample.facts.get("kernels", {}).items() if entry["count"]}


def share_without_tensor_cores(sample: Sample) -> float | None:
    """Return the share of a GPU's busy time with half-precision products without tensor cores; None if unknown."""
    busy_s, without_s = sample.facts.get("gpu_busy_s"), sample.facts.get("gpu_busy_without_tensor_cores_s")
    return without_s / busy_s if busy_s and without_s is not None else None


def judge_kernels(measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
    """Judge the launches per kind and in all; None where they are not known, neither now nor in the baseline.

    The search for convolution algorithms picks, in each process anew, among algorithms of equal speed that differ by a
    helper kernel or two. So every process of the measurement has to lie beyond every stored one of the level, and the
    sum by more than `policy.launch_effect`; so has the share of time in products that lost the tensor cores.
    """
    now = [counts_of(sample) for sample in measurement.samples]
    level = [session for session in stored.level(METRIC) if session.samples] if stored is not None else []
    before = [counts for session in level for sample in session.samples if (counts := counts_of(sample))]
    what = opening(measurement.case)
    if not (now and all(now)):
        why = next(
            (s.facts["kernels_not_available"] for s in measurement.samples if "kernels_not_available" in s.facts), ""
        )
        sentence = f"{what} kernels were not seen{why and f': {why}'}; its baseline has them."
        return invalid("kernels-missing", sentence, metric=METRIC) if before else None
    obtained = median(map(_total, now))
    launches = f"{what} launches {plural(int(obtained), 'kernel')} per call"
    if not before:
        return Verdict(Outcome.NEW, "no-baseline", f"{launches}, which has no baseline yet.", METRIC, obtained)
    expected = median(map(_total, before))
    outcome, code = _direction(now, before, policy=policy)
    listed = _listed(now, before)
    # Older sessions may be from before it was told.
    scalar = _shares(measurement.samples)
    scalar_before = [known for session in level for known in _shares(session.samples)]
    if scalar and scalar_before and min(scalar) > max(scalar_before) + policy.launch_effect:
        outcome, code = Outcome.REGRESSED, "tensor-cores-lost"
        lost = (
            f"for {share(median(scalar))} of its time the GPU multiplies half precision without tensor cores, "
            f"before {share(median(scalar_before))}"
        )
        listed = f"{lost}; {listed}" if listed else lost
    if not listed:
        return Verdict(outcome, code, f"{launches}, as in its baseline.", METRIC, obtained, expected)
    changes = since(level[-1], measurement.subject)
    sentence = f"{launches}; its baseline {int(expected):,}: {listed}{changes}."
    return Verdict(outcome, code, sentence, METRIC, obtained, expected)


def _direction(now: Sequence[Counts], before: Sequence[Counts], *, policy: Policy) -> tuple[Outcome, str]:
    fewer = any(_most(now, kind) < _fewest(before, kind) for kind in _FUSED)
    gone = any(_fewest(before, kind) and not _most(now, kind) for kind in _NEEDED)
    if fewer or gone:
        return Outcome.REGRESSED, "kernels-lost"
    if min(map(_total, now)) > max(map(_total, before)) * (1 + policy.launch_effect):
        return Outcome.REGRESSED, "more-launches"
    if max(map(_total, now)) < min(map(_total, before)) * (1 - policy.launch_effect):
        return Outcome.IMPROVED, "fewer-launches"
    return Outcome.HELD, "kernels-as-before"


def _shares(samples: Iterable[Sample]) -> list[float]:
    """Return the shares of all samples; none where that of one is not known."""
    found = [share_without_tensor_cores(sample) for sample in samples]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


def _total(counts: Counts) -> int:
    return sum(counts.values())


def _fewest(all_counts: Sequence[Counts], kind: str) -> int:
    return min(counts.get(kind, 0) for counts in all_counts)


def _most(all_counts: Sequence[Counts], kind: str) -> int:
    return max(counts.get(kind, 0) for counts in all_counts)


def _listed(now: Sequence[Counts], before: Sequence[Counts]) -> str:
    """List kinds that changed, in the order of `KINDS`: attention first."""
    middles = {
        kind: tuple(int(median(counts.get(kind, 0) for counts in side)) for side in (before, now)) for kind in KINDS
    }
    return ", ".join(f"{kind} {old:,} -> {new:,}" for kind, (old, new) in middles.items() if old != new)
