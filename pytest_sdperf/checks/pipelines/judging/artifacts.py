"""Are the files of a case as small as they were, and made and loaded as quickly?

Sizes hardly vary, and are judged always. The time of a step is judged where this run made it: what comes from the cache
says nothing about today. A build runs once and beside other programs, so a longer time counts only where the processor
had more to compute, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import capital, component, opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.standing import Standing
from pytest_sdperf.checks.pipelines.judging.our_metric import BUILD, OfProcesses, OurMetric
from pytest_sdperf.core.units import disk_size, seconds, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.artifact import COMPILE, Artifact, BuildStep
from pytest_sdperf.core.values.outcomes import Outcome, Verdict


class ArtifactSize(OurMetric):
    """The size of the files, those of the model and those that the engine compiled; the worst of them speaks."""

    name = "artifact-size"
    table = BUILD

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge it; None where nothing was built, neither now nor for the baseline."""
        now = _sizes(measurement.artifacts)
        before = {key: value for session in self.level(stored) for key, value in _sizes(session.artifacts).items()}
        missing = sorted(before.keys() - now.keys())
        if missing:
            sentence = f"The size of the {_files(*missing[0])} is not known; its baseline has it."
            return invalid("size-missing", sentence, metric=self.name)
        if not now:
            return None
        empty = sorted(key for sizes in (before, now) for key, size in sizes.items() if size <= 0)
        if empty:
            return invalid("size-not-positive", f"The {_files(*empty[0])} have no bytes.", metric=self.name)
        total = sum(now.values())
        if not before:
            compiled = sum(size for (_, kind), size in now.items() if kind == "compiled")
            part = f", {disk_size(compiled)} of that compiled," if compiled else ""
            sentence = f"{opening(measurement.case)} files of {disk_size(total)}{part} have no baseline yet."
            return self.new(sentence, total)
        changes = since(stored, measurement.subject)
        return _worst(self._of(key, now[key], old, policy=policy, changes=changes) for key, old in before.items())

    def _of(self, key: tuple[str, str], obtained: int, expected: int, *, policy: Policy, changes: str) -> Verdict:
        effect = policy.compiled_effect if key[1] == "compiled" else policy.size_effect
        reach = max(expected * effect, policy.size_floor_bytes)
        standing = Standing(obtained, expected, expected - reach, expected + reach, disk_size, by=f", {share(effect)}")
        outcome, code, held = Outcome.HELD, "size-as-before", f"({standing.held})"
        if abs(obtained - expected) > reach:
            larger = obtained > expected
            outcome, code = (Outcome.REGRESSED, "larger-files") if larger else (Outcome.IMPROVED, "smaller-files")
            held = f"({standing.beyond}){changes}"
        compared = f"{capital(_files(*key))} of {standing.compared(verb=' are', its='their')}"
        return standing.verdict(outcome, code, f"{compared} {held}.", self.name)


def _sizes(artifacts: Mapping[str, Artifact]) -> dict[tuple[str, str], int]:
    kinds = {
        (name, kind): size
        for name, artifact in artifacts.items()
        for kind, size in (("model", artifact.model_bytes), ("compiled", artifact.compiled_bytes))
    }
    return {key: size for key, size in kinds.items() if size is not None}


def _files(name: str, kind: str) -> str:
    return f"{component(name)} {kind} files"


class BuildTime(OurMetric):
    """The time of each step that this run made, by those of the same processor; the worst of them speaks."""

    name = "build-time"
    table = BUILD
    again = "measure with what is built now, whose time is not judged again"

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge it; None where this run made nothing: it came from the cache, with the numbers of another day."""
        made = [(name, step) for name, one in measurement.artifacts.items() for step in one.steps if step.now]
        if not made:
            return None
        level, changes = self.level(stored), since(stored, measurement.subject)
        known = [(name, step, before) for name, step in made if (before := _same(level, name, step))]
        if not known:
            total, host = sum(step.seconds for _, step in made), made[0][1].host or "this machine"
            every = sum(step.seconds for one in measurement.artifacts.values() for step in one.steps)
            part = f", {seconds(total)} of that now" if every > total else ""
            built = f"{opening(measurement.case)} was built in {seconds(every)}{part} on {host}"
            return self.new(f"{built}, which has no baseline yet.", total)
        return _worst(self._of(name, step, before, policy=policy, changes=changes) for name, step, before in known)

    def _of(self, name: str, step: BuildStep, before: list[BuildStep], *, policy: Policy, changes: str) -> Verdict:
        usual = statistics.median(old.seconds for old in before)
        standing = _standing(step.seconds, usual, policy.build_effect, policy.build_floor_s)
        outcome, code, told = Outcome.HELD, "build-as-before", ""
        if not standing.low <= step.seconds <= standing.high:
            slower = step.seconds > standing.high
            same, told = _computed(step, before, policy=policy, slower=slower)
            if not same:
                outcome, code = (Outcome.REGRESSED, "build-slower") if slower else (Outcome.IMPROVED, "build-faster")
                told += changes
            elif slower:
                outcome, code = Outcome.INCONCLUSIVE, "build-waited"
                told += ", so it may only have waited for cores, the disk or the network"
        took = f"{capital(component(name))} {step.name} took {standing.compared(verb=',')}"
        return standing.verdict(outcome, code, f"{took} ({standing.held}){told}.", self.name)


def _same(level: Iterable[Session], name: str, step: BuildStep) -> list[BuildStep]:
    """Return the stored steps that one can be compared with, each build once however many sessions it served."""
    found = {
        (old.date, old.seconds): old
        for session in level
        if name in session.artifacts
        for old in session.artifacts[name].steps
        if (old.name, old.host) == (step.name, step.host) and old.seconds > 0
    }
    return list(found.values())


def _computed(step: BuildStep, before: list[BuildStep], *, policy: Policy, slower: bool) -> tuple[bool, str]:
    """Return whether the processor computed no longer (or, for a faster step, no less) than before, and its words."""
    if step.name == COMPILE and not policy.on_cpu:
        return False, ""  # a compiler that waits for the GPU tries kernels on it, which is its work
    computed = [old.cpu_seconds for old in before if old.cpu_seconds is not None]
    if step.cpu_seconds is None or not computed:
        return True, "; what the processor computed is not known"
    usual = _standing(step.cpu_seconds, statistics.median(computed), policy.build_effect, policy.build_floor_s)
    told = f"; the processor computed for {seconds(step.cpu_seconds)}, before for {seconds(usual.expected)}"
    return step.cpu_seconds <= usual.high if slower else step.cpu_seconds >= usual.low, told


class WarmStart(OfProcesses[float]):
    """How long a fresh process takes to its first answer where it finds everything compiled.

    Every process has to lie beyond every stored one. On a CPU, which others use too, that is no proof.
    """

    name = "warm-start"
    table = BUILD

    def extract(self, sample: Sample) -> float:
        """Return the seconds until the first answer."""
        return sample.load_s + sample.first_run_s

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge it; None where the engine compiles nothing ahead."""
        if all(artifact.compiled_bytes is None for artifact in measurement.artifacts.values()):
            return None
        now = self.told(measurement.samples)
        before = [time for one in self.level(stored) if one.artifacts for time in self.told(one.samples) if time > 0]
        obtained, took = statistics.median(now), f"{opening(measurement.case)} start with compiled files took"
        if not before:
            return self.new(f"{took} {seconds(obtained)}, which has no baseline yet.", obtained)
        standing = _standing(obtained, statistics.median(before), policy.start_effect, policy.start_floor_s)
        outcome, code, tail = Outcome.HELD, "start-as-before", ""
        if obtained > standing.high and min(now) > max(before):
            outcome, code, tail = Outcome.REGRESSED, "slower-start", since(stored, measurement.subject)
            if policy.on_cpu:
                outcome, code, tail = (
                    Outcome.INCONCLUSIVE,
                    "slower-start-on-cpu",
                    ", but others use this processor, too",
                )
        elif obtained < standing.low and max(now) < min(before):
            outcome, code, tail = Outcome.IMPROVED, "faster-start", since(stored, measurement.subject)
        sentence = f"{took} {standing.compared(verb=',')} ({standing.held}){tail}."
        return standing.verdict(outcome, code, sentence, self.name)


def _standing(obtained: float, expected: float, effect: float, floor: float) -> Standing:
    """Return how a time stands to another one; changes up to a share, and up to some seconds, do not count."""
    low, high = min(expected / (1 + effect), expected - floor), max(expected * (1 + effect), expected + floor)
    return Standing(obtained, expected, low, high, seconds, by=f", {share(effect)}")


def _worst(verdicts: Iterator[Verdict]) -> Verdict:
    """Return the worst verdict; of several the one furthest from what was expected."""

    def rank(verdict: Verdict) -> tuple[int, float]:
        ratio = (verdict.obtained or 0.0) / (verdict.expected or 1.0)
        return verdict.outcome.rank, max(ratio, 1 / ratio if ratio > 0 else math.inf)

    return max(verdicts, key=rank)
