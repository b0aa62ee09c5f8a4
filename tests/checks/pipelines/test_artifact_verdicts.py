"""Sizes are judged always, build times where this run built something and the processor says why it took longer."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_values import measurement, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.artifacts import ArtifactSize, BuildTime, WarmStart
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.core.values.outcomes import Outcome

HELD, IMPROVED, NEW = Outcome.HELD, Outcome.IMPROVED, Outcome.NEW
INCONCLUSIVE, INVALID, REGRESSED = Outcome.INCONCLUSIVE, Outcome.INVALID, Outcome.REGRESSED
GPU, CPU = Policy(), Policy(on_cpu=True)
EPYC = "cpu-amd-epyc-2c"
GB, MB = 10**9, 10**6


def step(name="export", seconds=20.0, cpu=19.0, *, host=EPYC, now=True, date="2026-11-20T10:00Z"):
    return BuildStep(name, seconds, cpu, host=host, commit="abc", date=date, now=now)


def artifact(model_bytes=4 * GB, compiled_bytes=None, *steps):
    return Artifact(model_bytes, compiled_bytes, steps)


def now(one, **fields):
    return measurement(artifacts={"unet": one}, **fields)


def before(*ones, **fields):
    return stored(*(session(artifacts={"unet": one}, **fields) for one in ones))


def start(measured, *starts_s):
    """Each process needed this long to its first answer, half of it to load."""
    samples = tuple(
        dataclasses.replace(one, load_s=time / 2, first_run_s=time / 2)
        for one, time in zip(measured.samples, starts_s, strict=True)
    )
    return dataclasses.replace(measured, samples=samples)


def starting(one, *starts_s):
    samples = start(measurement(), *starts_s).samples
    return stored(msgspec.structs.replace(session(artifacts={"unet": one}), samples=samples))


TRT = artifact(4 * GB, 2 * GB)
SIZES = [
    (now(artifact()), before(artifact()), HELD, "size-as-before"),
    (now(artifact(4 * GB + 39 * MB)), before(artifact()), HELD, "size-as-before"),
    (now(artifact(4 * GB + 41 * MB)), before(artifact()), REGRESSED, "larger-files"),
    (now(artifact(3 * GB)), before(artifact()), IMPROVED, "smaller-files"),
    (now(artifact(50_000)), before(artifact(20_000)), HELD, "size-as-before"),
    (now(artifact(90_000)), before(artifact(20_000)), REGRESSED, "larger-files"),
    (now(artifact(4 * GB, 2 * GB + 190 * MB)), before(TRT), HELD, "size-as-before"),
    (now(artifact(4 * GB, 2 * GB + 210 * MB)), before(TRT), REGRESSED, "larger-files"),
    (now(artifact(3 * GB, 3 * GB)), before(TRT), REGRESSED, "larger-files"),
    (now(artifact(4 * GB, 1 * GB)), before(TRT), IMPROVED, "smaller-files"),
    (now(artifact()), None, NEW, "no-baseline"),
    (now(artifact()), stored(), NEW, "no-baseline"),
    (measurement(), stored(), None, ""),
    (measurement(), before(artifact()), INVALID, "size-missing"),
    (now(artifact()), before(TRT), INVALID, "size-missing"),
    (now(artifact(0)), before(artifact()), INVALID, "size-not-positive"),
    (now(artifact()), before(artifact(0)), INVALID, "size-not-positive"),
    (now(artifact(-1)), None, INVALID, "size-not-positive"),
]


@pytest.mark.parametrize(("measured", "baseline", "outcome", "code"), SIZES)
def test_sizes(measured, baseline, outcome, code):
    verdict = ArtifactSize().judge(measured, baseline, policy=GPU)
    assert (verdict and verdict.outcome, verdict.code if verdict else "") == (outcome, code)


BUILDS = [
    (step(), [step()], GPU, HELD, "build-as-before"),
    (step(seconds=29.0, cpu=28.0), [step()], GPU, HELD, "build-as-before"),
    (step(seconds=31.0, cpu=29.0), [step()], GPU, REGRESSED, "build-slower"),
    # measured on two cores beside four busy programs: 2.4 times as long, and 1.3 times the work
    (step(seconds=60.6, cpu=31.7), [step(seconds=25.7, cpu=25.2)], CPU, INCONCLUSIVE, "build-waited"),
    (step(seconds=60.6, cpu=None), [step()], GPU, INCONCLUSIVE, "build-waited"),
    (step(seconds=60.6), [step(cpu=None)], GPU, INCONCLUSIVE, "build-waited"),
    (step(seconds=5.0, cpu=4.9), [step()], GPU, IMPROVED, "build-faster"),
    (step(seconds=20.0, cpu=19.0), [step(seconds=60.0, cpu=20.0)], GPU, HELD, "build-as-before"),
    # few seconds never count
    (step(seconds=5.9, cpu=5.9), [step(seconds=1.0, cpu=1.0)], GPU, HELD, "build-as-before"),
    (step(seconds=6.1, cpu=6.1), [step(seconds=1.0, cpu=1.0)], GPU, REGRESSED, "build-slower"),
    # a compiler waits for the GPU, on which it tries kernels; on a CPU it waits as everybody does
    (step("compile", 600.0, 20.0), [step("compile", 300.0, 20.0)], GPU, REGRESSED, "build-slower"),
    (step("compile", 600.0, 20.0), [step("compile", 300.0, 20.0)], CPU, INCONCLUSIVE, "build-waited"),
    (step("compile", 100.0, 20.0), [step("compile", 300.0, 20.0)], GPU, IMPROVED, "build-faster"),
    # what cannot be compared
    (step(seconds=90.0, cpu=90.0), [step(host="cpu-intel-xeon-8c")], GPU, NEW, "no-baseline"),
    (step(seconds=90.0, cpu=90.0), [step("fuse-native")], GPU, NEW, "no-baseline"),
    (step(seconds=90.0, cpu=90.0, now=False), [step()], GPU, None, ""),
]


@pytest.mark.parametrize(("made", "known", "policy", "outcome", "code"), BUILDS)
def test_build_times(made, known, policy, outcome, code):
    verdict = BuildTime().judge(now(artifact(GB, None, made)), before(artifact(GB, None, *known)), policy=policy)
    assert (verdict and verdict.outcome, verdict.code if verdict else "") == (outcome, code)


def test_one_build_that_served_several_sessions_counts_once():
    slow = step(seconds=90.0, cpu=90.0, now=False)
    quick = [step(date=f"2026-11-2{day}T10:00Z", seconds=20.0 + day / 10) for day in range(2)]
    baseline = before(*(artifact(GB, None, one) for one in (*quick, slow, slow, slow, slow)))
    verdict = BuildTime().judge(now(artifact(GB, None, step(seconds=21.0))), baseline, policy=GPU)
    assert verdict is not None
    assert (verdict.outcome, verdict.expected) == (HELD, 20.1)


def test_the_worst_step_speaks():
    made = (step(), step("fuse-native", 40.0, 39.0), step("lower", 90.0, 10.0))
    known = (step(), step("fuse-native", 10.0, 9.0), step("lower", 10.0, 10.0))
    verdict = BuildTime().judge(now(artifact(GB, None, *made)), before(artifact(GB, None, *known)), policy=GPU)
    assert verdict is not None
    assert verdict.sentence == (
        "UNet fuse-native took 40.0 s, 300 % above its baseline of 10.0 s (held up to 15.0 s, 50 %); the processor "
        "computed for 39.0 s, before for 9.00 s."
    )


def test_sentences_of_builds_and_sizes():
    waited = BuildTime().judge(
        now(artifact(GB, None, step(seconds=60.6, cpu=26.0))), before(artifact(GB, None, step())), policy=GPU
    )
    larger = ArtifactSize().judge(
        now(artifact(5 * GB), subject={"onnxruntime": "1.32.0"}), before(artifact()), policy=GPU
    )
    fresh = BuildTime().judge(now(artifact(GB, None, step())), None, policy=GPU)
    partly = (step("weights", 23.6, now=False), step("compile", 91.7))
    cached = BuildTime().judge(now(artifact(GB, None, *partly)), None, policy=GPU)
    first = ArtifactSize().judge(now(TRT), None, policy=GPU)
    gone = ArtifactSize().judge(now(artifact()), before(TRT), policy=GPU)
    unknown = BuildTime().judge(
        now(artifact(GB, None, step(seconds=60.6, cpu=None))), before(artifact(GB, None, step())), policy=GPU
    )
    assert [verdict and verdict.sentence for verdict in (waited, larger, fresh, cached, first, gone, unknown)] == [
        (
            "UNet export took 60.6 s, 203 % above its baseline of 20.0 s (held up to 30.0 s, 50 %); the processor "
            "computed for 26.0 s, before for 19.0 s, so it may only have waited for cores, the disk or the network."
        ),
        (
            "UNet model files of 5.00 GB are 25 % above their baseline of 4.00 GB (held up to 4.04 GB, 1 %); since "
            "then: onnxruntime 1.31.1 -> 1.32.0."
        ),
        "UNet was built in 20.0 s on cpu-amd-epyc-2c, which has no baseline yet.",
        "UNet was built in 115 s, 91.7 s of that now on cpu-amd-epyc-2c, which has no baseline yet.",
        "UNet files of 6.00 GB, 2.00 GB of that compiled, have no baseline yet.",
        "The size of the UNet compiled files is not known; its baseline has it.",
        (
            "UNet export took 60.6 s, 203 % above its baseline of 20.0 s (held up to 30.0 s, 50 %); what the processor "
            "computed is not known, so it may only have waited for cores, the disk or the network."
        ),
    ]


STARTS = [
    ((3.0, 3.1, 3.2), (3.0, 3.1, 3.2), GPU, HELD, "start-as-before"),
    ((9.0, 9.1, 9.2), (3.0, 3.1, 3.2), GPU, REGRESSED, "slower-start"),
    ((9.0, 9.1, 9.2), (3.0, 3.1, 3.2), CPU, INCONCLUSIVE, "slower-start-on-cpu"),
    ((3.0, 9.1, 9.2), (3.0, 3.1, 3.2), GPU, HELD, "start-as-before"),
    ((1.0, 1.1, 1.2), (3.0, 3.1, 3.2), GPU, IMPROVED, "faster-start"),
    ((0.9, 0.9, 0.9), (0.1, 0.1, 0.1), GPU, HELD, "start-as-before"),
]


@pytest.mark.parametrize(("starts", "known", "policy", "outcome", "code"), STARTS)
def test_a_start_that_finds_everything_compiled(starts, known, policy, outcome, code):
    verdict = WarmStart().judge(start(now(TRT), *starts), starting(TRT, *known), policy=policy)
    assert verdict is not None
    assert (verdict.outcome, verdict.code) == (outcome, code)


def test_a_start_is_judged_only_where_something_was_compiled():
    assert WarmStart().judge(now(artifact()), before(artifact()), policy=GPU) is None
    verdict = WarmStart().judge(start(now(TRT), 3, 3, 3), stored(), policy=GPU)
    slower = WarmStart().judge(start(now(TRT), 9, 9, 9), starting(TRT, 3, 3, 3), policy=CPU)
    assert [one and one.sentence for one in (verdict, slower)] == [
        "UNet start with compiled files took 3.00 s, which has no baseline yet.",
        (
            "UNet start with compiled files took 9.00 s, 200 % above its baseline of 3.00 s (held up to 4.50 s, 50 %), "
            "but others use this processor, too."
        ),
    ]


def test_starts_of_sessions_from_before_files_were_told_say_nothing():
    known = starting(TRT, 9, 9, 9)
    older = stored(msgspec.structs.replace(known.last, artifacts={}))
    verdict = WarmStart().judge(start(now(TRT), 3, 3, 3), older, policy=GPU)
    assert verdict is not None
    assert verdict.outcome is NEW


def test_they_are_metrics_of_a_measurement():
    measured = start(now(artifact(4 * GB, 2 * GB, step())), 3, 3, 3)
    metrics = [verdict.metric for verdict in judge(measured, None, policy=CPU)]
    assert [name for name in metrics if name in ("build-time", "warm-start", "artifact-size")] == [
        "build-time", "warm-start", "artifact-size",
    ]  # fmt: skip


@given(size=st.integers(1, 10**12), factor=st.floats(0.5, 2))
def test_a_larger_file_never_gets_a_better_verdict(size, factor):
    order = [IMPROVED, HELD, REGRESSED]
    found = []
    for bytes_now in sorted((size, max(1, int(size * factor)))):
        verdict = ArtifactSize().judge(now(artifact(bytes_now)), before(artifact(size)), policy=GPU)
        assert verdict is not None
        found.append(order.index(verdict.outcome))
    assert found == sorted(found)
