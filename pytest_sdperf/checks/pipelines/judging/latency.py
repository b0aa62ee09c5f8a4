"""Is it as fast as it was? Out of memory is a value here, slower than every number."""

from __future__ import annotations

import dataclasses
import statistics

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.checks.judging.blame import kernel_changes
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import component, opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.standing import NO_REPLICATES, Standing
from pytest_sdperf.checks.pipelines.judging.our_metric import OfProcesses
from pytest_sdperf.checks.pipelines.judging.stages import stage_changes
from pytest_sdperf.checks.pipelines.judging.waiting import most_waited, waiting
from pytest_sdperf.core.stats.bounds import Interval, predict
from pytest_sdperf.core.units import percent, plural, seconds, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.calibration import Calibration, Slowdown, others, slowdown
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

BASELINE_SHARED = "baseline-shared"
# Whether a case became slower, which other programs explain -> what that means.
_SHARED = {
    True: (
        Outcome.INVALID,
        "processors-shared",
        "that can explain it, and nothing can be said about the build until they are free",
    ),
    False: (
        Outcome.INCONCLUSIVE,
        BASELINE_SHARED,
        "that can explain it: measure the baseline again where nothing else runs",
    ),
}


class Latency(OfProcesses[float]):
    """The median of process medians, against the sessions of the present level; out of memory is one, too."""

    name = "latency"
    table = ""
    of_failures = True

    def extract(self, sample: Sample) -> float:
        """Return the one number that a process contributes."""
        return sample.median_s

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict:
        """Judge a number by its sessions, and out of memory by whether it was so before."""
        what = f"{opening(measurement.case)} latency"
        if stored is None:
            tail = ", and --sdperf-fail-on=new asks for one" if policy.fail_on_new else " yet"
            if measurement.out_of_memory:
                return self.new(f"{what} is OOM (the device ran out of memory) and has no baseline{tail}.")
            sentence = f"{what} {seconds(measurement.latency_s)} has no baseline{tail}."
            return self.new(sentence, measurement.latency_s)
        changes = since(stored, measurement.subject)
        if stored.last.out_of_memory:
            if measurement.out_of_memory:
                return Verdict(Outcome.HELD, "oom-as-before", f"{what} is OOM, as in its baseline.", self.name)
            took = f"{what} is {seconds(measurement.latency_s)} where the device ran out of memory before{changes}."
            return Verdict(Outcome.IMPROVED, "number-instead-of-oom", took, self.name, obtained=measurement.latency_s)
        before = self.before(stored)
        if not before:
            # One may hold nothing but the counts of its graphs.
            of = component(measurement.case.component)
            sentence = f"The baseline of {of} latency cannot be used: no session holds samples."
            return invalid("baseline-unusable", sentence, metric=self.name)
        if measurement.out_of_memory:
            usual = statistics.geometric_mean(map(statistics.median, before))
            took = f"{what} is OOM: the device ran out of memory where its baseline took {seconds(usual)}{changes}."
            return Verdict(Outcome.REGRESSED, "oom-instead-of-number", took, self.name, expected=usual)
        return self._against(measurement, stored, what=what, policy=policy)

    def expected(self, measurement: Measurement, stored: StoredCase, *, policy: Policy) -> tuple[Interval, Interval]:
        """Return where a measurement is expected: what its analysis counts as a change, and what the last look will.

        The two are equal for the last analysis. An earlier one may spend less of the error rate, so its interval is
        wider.
        """
        before, new, counts = (
            self.before(stored),
            measurement.medians_s,
            (len(measurement.samples), policy.analyses.last),
        )
        rates = (policy.error_rate * policy.analyses.share(count) for count in counts)
        strict, last = (predict(before, new, min_effect=policy.min_effect, confidence=1 - rate) for rate in rates)
        return strict, last

    def _against(self, measurement: Measurement, stored: StoredCase, *, what: str, policy: Policy) -> Verdict:
        """Compare with an interval: first whether it allows a verdict, then on which side of it the session lies."""
        strict, interval = self.expected(measurement, stored, policy=policy)
        obtained, needed, level = measurement.latency_s, 1 + policy.latency_effect, self.level(stored)
        processes = len(measurement.samples) + sum(len(session.samples) for session in level)
        standing = Standing.in_interval(obtained, interval, processes, seconds)
        ratio, change, held, beyond = standing.ratio, standing.change, f" ({standing.held})", f" ({standing.beyond})"
        calibrations = [session.calibration for session in level]
        card, busy = slowdown(calibrations, measurement.calibration), waiting(measurement, level)
        changes = "".join(
            (
                since(stored, measurement.subject),
                _drift(obtained, stored, policy=policy),
                _told(card, policy=policy),
                _not_known(calibrations, measurement.calibration, policy=policy) if ratio > needed else "",
                busy.told,
                policy.why_wider(ratio),
            )
        )

        def verdict(outcome: Outcome, code: str, tail: str, blamed: tuple[str, ...] = ()) -> Verdict:
            low = min(interval.low, interval.center / needed)
            sentence = f"{what} {standing.compared()}{tail}."
            found = dataclasses.replace(standing, low=low).verdict(outcome, code, sentence, self.name)
            return dataclasses.replace(found, details=blamed)

        counts = change > interval.ratio and change > needed
        if interval.basis == "nothing":
            return verdict(Outcome.INCONCLUSIVE, "latency-no-replicates", f", but {NO_REPLICATES}")
        if counts and ratio > 1 and _explains(card, ratio, interval, policy=policy):
            why = "nothing can be said about the build until the card is as it was"
            return verdict(Outcome.INVALID, "card-slower", f"{held}{changes}; {why}")
        if counts and busy.explains(ratio, max(interval.ratio, needed)):
            outcome, code, why = _SHARED[ratio > 1]
            return verdict(outcome, code, f"{beyond}{changes}; {why}")
        if counts and change > strict.ratio:
            outcome, code = (Outcome.REGRESSED, "above") if ratio > 1 else (Outcome.IMPROVED, "below")
            blamed = (*stage_changes(measurement, level), *kernel_changes(measurement, level))
            return verdict(outcome, f"latency-{code}-interval", f"{beyond}{changes}", blamed)
        if counts:
            why = f"after {plural(len(measurement.samples), 'process', 'processes')} that is not certain yet"
            return verdict(Outcome.INCONCLUSIVE, "latency-open", f"{beyond}, but {why}{changes}")
        if ratio > interval.ratio:
            return verdict(
                Outcome.INCONCLUSIVE, "latency-small-on-cpu", f"{held}, but {policy.why_small_passes}{changes}"
            )
        if noisy := standing.too_noisy(policy.widest):
            code, why = _noise(standing, level, noisy)
            return verdict(Outcome.INCONCLUSIVE, code, f", but {why}")
        return verdict(Outcome.HELD, "latency-inside-interval", f"{held}{changes}")


def _noise(standing: Standing, level: tuple[Session, ...], noisy: str) -> tuple[str, str]:
    """Return the code and the words for an interval that is too wide: it may be for a process that was disturbed."""
    waited = max(most_waited(session.samples) for session in level)
    if not waited:
        return "latency-too-noisy", noisy
    return BASELINE_SHARED, (
        f"{standing.hidden}, and something else used the processors while the baseline was measured: the threads of a "
        f"process waited {share(waited)} of the time. Measure the baseline again where nothing else runs"
    )


def _told(card: Slowdown | None, *, policy: Policy) -> str:
    """Say how the device itself has changed; empty where it has not, or nobody knows."""
    if card is None or max(abs(card.product - 1), abs(card.copy - 1)) <= policy.latency_effect:
        return ""
    product, copy = _time(card.product), _time(card.copy)
    return f"; the {_device(policy)} itself needs {product} for a matrix product and {copy} for a copy"


def _not_known(before: list[Calibration | None], now: Calibration | None, *, policy: Policy) -> str:
    """Say that nobody can tell whether the device has changed, where other libraries calibrated it before."""
    libraries = others(before, now)
    if now is None or not libraries:
        return ""
    device, then = _device(policy), " and ".join(libraries)
    return f"; whether the {device} itself has changed is not known: {then} calibrated it then, and {now.by} now"


def _device(policy: Policy) -> str:
    return "processor" if policy.on_cpu else "card"


def _time(ratio: float) -> str:
    change = percent(ratio)
    return "as much time" if change == "0.0 %" else f"{change[1:]} {'more' if ratio > 1 else 'less'} time"


def _explains(card: Slowdown | None, ratio: float, interval: Interval, *, policy: Policy) -> bool:
    """Whether a slower card is the reason of a slower case: without it the case would be inside its interval.

    A processor's rate changes from second to second with what else runs on it, so there it only is remarked on.
    """
    if card is None or policy.on_cpu or card.ratio <= 1 + policy.latency_effect:
        return False
    return ratio / card.ratio <= max(interval.ratio, 1 + policy.latency_effect)


def _drift(obtained: float, stored: StoredCase, *, policy: Policy) -> str:
    """Say how far the anchor is, where the sessions have moved away from it."""
    anchor = stored.anchor
    if not anchor.samples or anchor.date == stored.sessions[0].date:
        return ""
    ratio = obtained / statistics.median(sample.median_s for sample in anchor.samples)
    return f"; {percent(ratio)} since the anchor of {anchor.date[:10]}" if abs(ratio - 1) > policy.min_effect else ""


LATENCY = Latency()
