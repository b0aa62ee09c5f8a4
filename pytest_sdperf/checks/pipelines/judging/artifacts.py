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
from pytest_sdperf.core.units import above_or_below, disk_size, seconds, share
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.artifact import COMPILE, Artifact, BuildStep
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

SIZE, BUILD_TIME, WARM_START = METRICS = ("artifact-size", "build-time", "warm-start")

Artifacts = Mapping[str, Artifact]
Sizes = Mapping[tuple[str, str], int]


def judge_size(measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
    """Judge the size of the files, those of the model and those that the engine compiled; the worst of them.

    Returns:
        None where nothing was built, neither now nor for the baseline.
    """
    now = _sizes(measurement.artifacts)
    level = _level(stored, SIZE)
    before = {key: value for session in level for key, value in _sizes(session.artifacts).items()}
    missing = sorted(before.keys() - now.keys())
    if missing:
        sentence = f"The size of the {_files(*missing[0])} is not known; its baseline has it."
        return invalid("size-missing", sentence, metric=SIZE)
    if not now:
        return None
    empty = sorted(key for sizes in (before, now) for key, size in sizes.items() if size <= 0)
    if empty:
        return invalid("size-not-positive", f"The {_files(*empty[0])} have no bytes.", metric=SIZE)
    total = sum(now.values())
    if not before:
        compiled = sum(size for (_, kind), size in now.items() if kind == "compiled")
        part = f", {disk_size(compiled)} of that compiled," if compiled else ""
        sentence = f"{opening(measurement.case)} files of {disk_size(total)}{part} have no baseline yet."
        return Verdict(Outcome.NEW, "no-baseline", sentence, SIZE, total)
    changes = since(level[-1], measurement.subject)
    return _worst(_size(key, now[key], old, policy=policy, changes=changes) for key, old in before.items())


def _sizes(artifacts: Artifacts) -> dict[tuple[str, str], int]:
    kinds = {
        (name, kind): size
        for name, artifact in artifacts.items()
        for kind, size in (("model", artifact.model_bytes), ("compiled", artifact.compiled_bytes))
    }
    return {key: size for key, size in kinds.items() if size is not None}


def _files(name: str, kind: str) -> str:
    return f"{component(name)} {kind} files"


def _size(key: tuple[str, str], obtained: int, expected: int, *, policy: Policy, changes: str) -> Verdict:
    effect = policy.compiled_effect if key[1] == "compiled" else policy.size_effect
    reach = max(expected * effect, policy.size_floor_bytes)
    outcome, code, end, tail = Outcome.HELD, "size-as-before", expected + reach, ""
    if abs(obtained - expected) > reach:
        larger = obtained > expected
        outcome, code = (Outcome.REGRESSED, "larger-files") if larger else (Outcome.IMPROVED, "smaller-files")
        end, tail = expected + (reach if larger else -reach), changes
    compared = f"{capital(_files(*key))} of {disk_size(obtained)} are {above_or_below(obtained / expected)}"
    held = f"held {'up' if end >= expected else 'down'} to {disk_size(end)}, {share(effect)}"
    sentence = f"{compared} their baseline of {disk_size(expected)} ({held}){tail}."
    return Verdict(outcome, code, sentence, SIZE, obtained, expected, expected - reach, expected + reach)


def judge_build_time(measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
    """Judge each step that this run made by those of the same processor in the baseline; the worst of them.

    Returns:
        None where this run made nothing: it came from the cache, with the numbers of another day.
    """
    made = [(name, step) for name, one in measurement.artifacts.items() for step in one.steps if step.now]
    if not made:
        return None
    level = _level(stored, BUILD_TIME)
    changes = since(level[-1], measurement.subject) if level else ""
    known = [(name, step, before) for name, step in made if (before := _same(level, name, step))]
    if not known:
        total, host = sum(step.seconds for _, step in made), made[0][1].host or "this machine"
        every = sum(step.seconds for one in measurement.artifacts.values() for step in one.steps)
        part = f", {seconds(total)} of that now" if every > total else ""
        built = f"{opening(measurement.case)} was built in {seconds(every)}{part} on {host}"
        return Verdict(Outcome.NEW, "no-baseline", f"{built}, which has no baseline yet.", BUILD_TIME, total)
    return _worst(_step(name, step, before, policy=policy, changes=changes) for name, step, before in known)


def _level(stored: StoredCase | None, metric: str) -> tuple[Session, ...]:
    return tuple(session for session in stored.level(metric) if session.artifacts) if stored is not None else ()


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


def _step(name: str, step: BuildStep, before: list[BuildStep], *, policy: Policy, changes: str) -> Verdict:
    expected = statistics.median(old.seconds for old in before)
    low, high = _ends(expected, policy.build_effect, policy.build_floor_s)
    took = f"{capital(component(name))} {step.name} took {seconds(step.seconds)}"
    compared = f"{took}, {above_or_below(step.seconds / expected)} its baseline of {seconds(expected)}"
    held = f"held up to {seconds(high)}, {share(policy.build_effect)}"
    outcome, code, told = Outcome.HELD, "build-as-before", ""
    if not low <= step.seconds <= high:
        slower = step.seconds > high
        same, told = _computed(step, before, policy=policy, slower=slower)
        if not same:
            outcome, code = (Outcome.REGRESSED, "build-slower") if slower else (Outcome.IMPROVED, "build-faster")
            told += changes
        elif slower:
            outcome, code = Outcome.INCONCLUSIVE, "build-waited"
            told += ", so it may only have waited for cores, the disk or the network"
    sentence = f"{compared} ({held}){told}."
    return Verdict(outcome, code, sentence, BUILD_TIME, step.seconds, expected, low, high)


def _computed(step: BuildStep, before: list[BuildStep], *, policy: Policy, slower: bool) -> tuple[bool, str]:
    """Return whether the processor computed no longer (or, for a faster step, no less) than before, and its words."""
    if step.name == COMPILE and not policy.on_cpu:
        return False, ""  # a compiler that waits for the GPU tries kernels on it, which is its work
    computed = [old.cpu_seconds for old in before if old.cpu_seconds is not None]
    if step.cpu_seconds is None or not computed:
        return True, "; what the processor computed is not known"
    usual = statistics.median(computed)
    fewest, most = _ends(usual, policy.build_effect, policy.build_floor_s)
    told = f"; the processor computed for {seconds(step.cpu_seconds)}, before for {seconds(usual)}"
    return step.cpu_seconds <= most if slower else step.cpu_seconds >= fewest, told


def judge_warm_start(measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
    """Judge how long a fresh process takes to its first answer where it finds everything compiled.

    Every process has to lie beyond every stored one. On a CPU, which others use too, that is no proof.

    Returns:
        None where the engine compiles nothing ahead.
    """
    if all(artifact.compiled_bytes is None for artifact in measurement.artifacts.values()):
        return None
    now = [sample.load_s + sample.first_run_s for sample in measurement.samples]
    level = [session for session in _level(stored, WARM_START) if session.samples]
    stored_s = [sample.load_s + sample.first_run_s for session in level for sample in session.samples]
    before = [time for time in stored_s if time > 0]
    obtained, what = statistics.median(now), f"{opening(measurement.case)} start with compiled files"
    if not before:
        sentence = f"{what} took {seconds(obtained)}, which has no baseline yet."
        return Verdict(Outcome.NEW, "no-baseline", sentence, WARM_START, obtained)
    expected, effect = statistics.median(before), policy.start_effect
    low, high = _ends(expected, effect, policy.start_floor_s)
    outcome, code, tail = Outcome.HELD, "start-as-before", ""
    if obtained > high and min(now) > max(before):
        outcome, code, tail = Outcome.REGRESSED, "slower-start", since(level[-1], measurement.subject)
        if policy.on_cpu:
            outcome, code, tail = Outcome.INCONCLUSIVE, "slower-start-on-cpu", ", but others use this processor, too"
    elif obtained < low and max(now) < min(before):
        outcome, code, tail = Outcome.IMPROVED, "faster-start", since(level[-1], measurement.subject)
    sentence = (
        f"{what} took {seconds(obtained)}, {above_or_below(obtained / expected)} its baseline of {seconds(expected)} "
        f"(held up to {seconds(high)}, {share(effect)}){tail}."
    )
    return Verdict(outcome, code, sentence, WARM_START, obtained, expected, low, high)


def _ends(expected: float, effect: float, floor: float) -> tuple[float, float]:
    """Return the shortest and the longest time that count as the expected one."""
    return min(expected / (1 + effect), expected - floor), max(expected * (1 + effect), expected + floor)


def _worst(verdicts: Iterator[Verdict]) -> Verdict:
    """Return the worst verdict; of several the one furthest from what was expected."""

    def rank(verdict: Verdict) -> tuple[int, float]:
        assert verdict.obtained is not None
        assert verdict.expected
        ratio = verdict.obtained / verdict.expected
        return verdict.outcome.rank, max(ratio, 1 / ratio if ratio > 0 else math.inf)

    return max(verdicts, key=rank)
