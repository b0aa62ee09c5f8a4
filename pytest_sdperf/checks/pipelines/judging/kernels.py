"""Does the GPU still run the same kernels? Counts hardly vary, and a kind that is lost names a cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.our_metric import OfProcesses
from pytest_sdperf.core.units import plural, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.tasks.sampling.kernels import ATTENTIONS, KINDS, MATH

# Fewer of these is a loss even where the whole got smaller: each does what several plain kernels do otherwise.
_FUSED = tuple(kind for kind in ATTENTIONS if kind != MATH)
# None left of these is a loss; how many there are is up to the search for algorithms.
_NEEDED = ("convolution-nhwc", "gemm")

Counts = Mapping[str, int]
_Seen = tuple[Counts, float | None]


def share_without_tensor_cores(sample: Sample) -> float | None:
    """Return the share of a GPU's busy time with half-precision products without tensor cores; None if unknown."""
    busy_s, without_s = sample.facts.get("gpu_busy_s"), sample.facts.get("gpu_busy_without_tensor_cores_s")
    return without_s / busy_s if busy_s and without_s is not None else None


class Kernels(OfProcesses[_Seen]):
    """Launches per kind and in all.

    The search for convolution algorithms picks, in each process anew, among algorithms of equal speed that differ by a
    helper kernel or two. So every process of the measurement has to lie beyond every stored one of the level, and the
    sum by more than `policy.launch_effect`; so has the share of time in products that lost the tensor cores.
    """

    name = "kernels"

    def extract(self, sample: Sample) -> _Seen | None:
        """Return the launches of a call, and the share of time without tensor cores; None where nothing could tell."""
        found = sample.facts.get("kernels", {})
        counts = {kind: int(entry["count"]) for kind, entry in found.items() if entry["count"]}
        return (counts, share_without_tensor_cores(sample)) if counts else None

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge them; None where they are not known in every process, and the baseline has none."""
        seen, known, what = self.told(measurement.samples), self.before(stored), opening(measurement.case)
        if len(seen) < len(measurement.samples):
            why = next((why for one in measurement.samples if (why := one.facts.get("kernels_not_available"))), "")
            sentence = f"{what} kernels were not seen{why and f': {why}'}; its baseline has them."
            return invalid("kernels-missing", sentence, metric=self.name) if known else None
        now, before = [counts for counts, _ in seen], [counts for session in known for counts, _ in session]
        obtained = median(map(_total, now))
        launches = f"{what} launches {plural(int(obtained), 'kernel')} per call"
        if not before:
            return self.new(f"{launches}, which has no baseline yet.", obtained)
        expected = median(map(_total, before))
        outcome, code = _direction(now, before, policy=policy)
        listed = _listed(now, before)
        # Older sessions may be from before it was told.
        scalar, scalar_before = _shares(seen), [one for session in known for one in _shares(session)]
        if scalar and scalar_before and min(scalar) > max(scalar_before) + policy.launch_effect:
            outcome, code = Outcome.REGRESSED, "tensor-cores-lost"
            lost = (
                f"for {share(median(scalar))} of its time the GPU multiplies half precision without tensor cores, "
                f"before {share(median(scalar_before))}"
            )
            listed = f"{lost}; {listed}" if listed else lost
        compared = f"; its baseline {int(expected):,}: {listed}{since(stored, measurement.subject)}"
        sentence = f"{launches}{compared if listed else ', as in its baseline'}."
        return Verdict(outcome, code, sentence, self.name, obtained, expected)


def _direction(now: Sequence[Counts], before: Sequence[Counts], *, policy: Policy) -> tuple[Outcome, str]:
    def ends(side: Sequence[Counts], kind: str) -> tuple[int, int]:
        counts = [one.get(kind, 0) for one in side]
        return min(counts), max(counts)

    fewer = any(ends(now, kind)[1] < ends(before, kind)[0] for kind in _FUSED)
    gone = any(ends(before, kind)[0] and not ends(now, kind)[1] for kind in _NEEDED)
    if fewer or gone:
        return Outcome.REGRESSED, "kernels-lost"
    if min(map(_total, now)) > max(map(_total, before)) * (1 + policy.launch_effect):
        return Outcome.REGRESSED, "more-launches"
    if max(map(_total, now)) < min(map(_total, before)) * (1 - policy.launch_effect):
        return Outcome.IMPROVED, "fewer-launches"
    return Outcome.HELD, "kernels-as-before"


def _shares(seen: Sequence[_Seen]) -> list[float]:
    """Return the shares of all processes; none where that of one is not known."""
    known = [one for _, one in seen if one is not None]
    return known if len(known) == len(seen) else []


def _total(counts: Counts) -> int:
    return sum(counts.values())


def _listed(now: Sequence[Counts], before: Sequence[Counts]) -> str:
    """List kinds that changed, in the order of `KINDS`: attention first."""
    middles = {
        kind: tuple(int(median(counts.get(kind, 0) for counts in side)) for side in (before, now)) for kind in KINDS
    }
    return ", ".join(f"{kind} {old:,} -> {new:,}" for kind, (old, new) in middles.items() if old != new)
