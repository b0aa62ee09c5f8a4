"""What an older version could not tell yet: its sessions say nothing of it, and spoil nothing for those that do."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from sample_values import kernels, measurement, sample, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.core.values.artifact import Artifact
from pytest_sdperf.core.values.outcomes import Outcome

GRAPH = {"kernels": kernels(gemm=100, convolution_nhwc=10)}
CORES = {**GRAPH, "gpu_busy_s": 8e-3}
GPU = Policy(on_cpu=False)


def told(*, peaks=None, artifacts=None, **facts):
    """Return what one version tells: facts, peaks and files of three processes."""
    one = dataclasses.replace(sample(10, source="device"), facts=facts, peaks_bytes=peaks or {})
    return {"samples": (one,) * 3, "artifacts": artifacts or {}}


def allocated(mb):
    return {"allocator": {"first_run": mb << 20, "second_run": mb << 20}}


def made(mb):
    return {"unet": Artifact(mb << 20)}


KINDS = {
    "allocator-memory": (told(), told(peaks=allocated(400)), told(peaks=allocated(500))),
    "kernels": (told(), told(**GRAPH), told(kernels=kernels(gemm=200, convolution_nhwc=10))),
    "tensor cores": (
        told(**GRAPH),
        told(**CORES, gpu_busy_without_tensor_cores_s=0.0),
        told(**CORES, gpu_busy_without_tensor_cores_s=4e-3),
    ),
    "host-waits": (
        told(**GRAPH),
        told(**GRAPH, host_waits={"synchronizations": 1, "copies": 0}),
        told(**GRAPH, host_waits={"synchronizations": 5, "copies": 0}),
    ),
    "partitions": (
        told(),
        told(partitions={"engines": 1, "cpu_nodes": 0}),
        told(partitions={"engines": 4, "cpu_nodes": 0}),
    ),
    "artifact-size": (told(), told(artifacts=made(400)), told(artifacts=made(500))),
}
METRICS = {"tensor cores": "kernels"}  # of the others it is the name


def sessions(*contents):
    return stored(*(msgspec.structs.replace(session(), **content) for content in contents))


def judged(content, known):
    verdicts = judge(dataclasses.replace(measurement(), **content), known, policy=GPU)
    return {verdict.metric: (verdict.outcome, verdict.code, verdict.sentence) for verdict in verdicts}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("older", [1, 3])
def test_sessions_that_do_not_tell_it_are_as_if_they_were_not_there(kind, older):
    without, usual, changed = KINDS[kind]
    for now, expected in ((usual, Outcome.HELD), (changed, Outcome.REGRESSED)):
        alone, beside = (
            judged(now, known)[METRICS.get(kind, kind)]
            for known in (sessions(usual), sessions(*[without] * older, usual))
        )
        assert alone[0] is expected
        assert beside == alone


@pytest.mark.parametrize("kind", KINDS)
def test_where_no_session_tells_it_there_is_no_baseline_of_it(kind):
    without, usual, _ = KINDS[kind]
    found = judged(usual, sessions(without, without))
    # Kernels have a baseline without it.
    assert found[METRICS.get(kind, kind)][0] is (Outcome.HELD if kind == "tensor cores" else Outcome.NEW)
    assert {outcome for outcome, *_ in found.values()} <= {Outcome.HELD, Outcome.NEW}


@pytest.mark.parametrize("kind", ["allocator-memory", "kernels", "partitions", "artifact-size"])
def test_what_was_told_and_is_not_any_more_is_never_passed_over(kind):
    without, usual, _ = KINDS[kind]
    assert Outcome.INVALID in [outcome for outcome, *_ in judged(without, sessions(without, usual)).values()]


def test_a_process_that_tells_no_more_what_its_sisters_do_spoils_its_session():
    _, usual, _ = KINDS["allocator-memory"]
    lost = dataclasses.replace(usual["samples"][0], peaks_bytes={})
    mixed = {**usual, "samples": (*usual["samples"][:2], lost)}
    assert judged(usual, sessions(mixed))["allocator-memory"] == (
        Outcome.INVALID,
        "baseline-unusable",
        "The baseline of UNet allocator memory has a sample without it.",
    )


def test_a_session_in_which_one_process_does_not_tell_its_tensor_cores_tells_nothing_of_them():
    _, usual, changed = KINDS["tensor cores"]
    silent = dataclasses.replace(changed["samples"][0], facts=GRAPH)
    mixed = {**changed, "samples": (*changed["samples"][:2], silent)}
    assert judged(changed, sessions(mixed, usual))["kernels"][1] == "tensor-cores-lost"
    assert judged(mixed, sessions(usual))["kernels"][1] == "kernels-as-before"
