"""What a GPU did, read from what torch's profiler writes."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch
from fake_profiler import FLASH, GEMM, UNKNOWN, event, launched, replayed
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.tasks.sampling.kernels import NONE_ON_CPU
from pytest_sdperf.tasks.sampling.profiling import Activity, summed, watched


def seen(gpu, folder, *per_call, calls=3):
    return watched(lambda: gpu.append(list(per_call)), device_kind="cuda", folder=folder, calls=calls)


def test_kernels_copies_and_memsets_are_counted_per_call(gpu, tmp_path):
    copy, zeros = (
        event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 2.0),
        event("gpu_memset", "Memset (Device)", 1.0),
    )
    activity = seen(gpu, tmp_path, *launched(FLASH, FLASH, GEMM, UNKNOWN), copy, zeros)
    assert {kind: entry["count"] for kind, entry in activity.kernels.items()} == {
        "attention-flash": 2,
        "gemm": 1,
        "other": 1,
        "copy": 1,
        "memset": 1,
    }
    assert activity.kernels["attention-flash"]["seconds"] == pytest.approx(20e-6)
    assert (activity.others, activity.replays, activity.launches, activity.unseen) == ((UNKNOWN,), 0, 4, "")
    assert len(gpu) == 3
    assert list(tmp_path.iterdir()) == []


def test_the_kernels_that_take_most_are_named(gpu, tmp_path):
    activity = seen(gpu, tmp_path, *launched(GEMM, FLASH, FLASH, *(f"acme_{number}" for number in range(9))))
    assert activity.slowest[0] == {
        "name": FLASH,
        "kind": "attention-flash",
        "count": 2,
        "seconds": pytest.approx(20e-6),
    }
    assert len(activity.slowest) == 5
    assert seen(gpu, tmp_path, *launched("x" * 999)).slowest[0]["name"] == "x" * 200


def test_products_without_tensor_cores_are_summed_apart(gpu, tmp_path):
    scalar = "void implicit_convolve_sgemm<__half, __half, 128, 6, 7, 3, 3, 5, 1, false, false, true>(int)"
    activity = seen(gpu, tmp_path, *launched(GEMM, scalar, scalar, "sm90_xmma_fprop_implicit_gemm_f16f16_nhwc"))
    assert activity.kernels["convolution"]["count"] == 2
    assert activity.without_tensor_cores == {"convolution": {"count": 2, "seconds": pytest.approx(20e-6)}}
    assert activity.busy_without_tensor_cores_s == pytest.approx(20e-6)
    without = seen(gpu, tmp_path, *launched(GEMM, FLASH))
    assert (without.without_tensor_cores, without.busy_without_tensor_cores_s) == ({}, 0)


def test_the_device_is_busy_once_where_kernels_run_side_by_side():
    scalar = "void implicit_convolve_sgemm<__half, __half, 128, 6, 7, 3, 3, 5, 1, false, false, true>(int)"
    spans = [(GEMM, 0, 10), (scalar, 5, 20), (scalar, 10, 5), (GEMM, 40, 10), (FLASH, 42, 2)]
    events = [event("kernel", name, dur, begin) for name, begin, dur in spans]
    events += [event("gpu_memset", "Memset (Device)", 1, 60), event("cuda_runtime", "cudaLaunchKernel", 99, 70)]
    activity = summed(events, calls=2)
    assert activity.kernels["convolution"] == {"count": 1, "seconds": pytest.approx(12.5e-6)}
    assert activity.busy_s == pytest.approx((25 + 10 + 1) * 1e-6 / 2)
    assert activity.busy_without_tensor_cores_s == pytest.approx(20e-6 / 2)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1))
def test_busy_is_every_microsecond_that_is_in_any_kernel(spans):
    events = [event("kernel", GEMM, dur, begin) for begin, dur in spans]
    covered = {moment for begin, dur in spans for moment in range(begin, begin + dur)}
    assert summed(events, calls=1).busy_s == pytest.approx(len(covered) * 1e-6)


def test_a_replayed_graph_is_told_from_launches(gpu, tmp_path):
    activity = seen(gpu, tmp_path, *replayed(FLASH, GEMM))
    assert (activity.replays, activity.launches) == (1, 0)
    assert sum(entry["count"] for entry in activity.kernels.values()) == 2


@pytest.mark.parametrize(
    ("category", "name", "replays", "launches"),
    [
        ("cuda_runtime", "cudaLaunchKernel", 0, 1),
        ("cuda_runtime", "cudaLaunchKernelExC_v11060", 0, 1),
        ("cuda_runtime", "cudaLaunchCooperativeKernel", 0, 1),
        ("cuda_driver", "cuLaunchKernelEx", 0, 1),
        ("cuda_runtime", "hipExtModuleLaunchKernel", 0, 1),
        ("cuda_runtime", "cudaGraphLaunch", 1, 0),
        ("cuda_driver", "cuGraphLaunch_v2", 1, 0),
        ("cuda_runtime", "hipGraphLaunch", 1, 0),
        ("cuda_runtime", "cudaMemcpyAsync", 0, 0),
        ("cuda_runtime", "cudaDeviceSynchronize", 0, 0),
    ],
)
def test_calls_of_the_runtime(category, name, replays, launches):
    activity = summed([event(category, name)], calls=1)
    assert (activity.replays, activity.launches) == (replays, launches)
    assert activity.unseen == "torch's profiler saw no kernel"


OWN = event("cuda_runtime", "cudaDeviceSynchronize")
TO_HOST = event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 1.0)


@pytest.mark.parametrize(
    "name", ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "hipStreamSynchronize"]
)
def test_what_makes_the_host_wait_is_counted_without_our_own(gpu, tmp_path, name):
    waits = [event("cuda_runtime", name)] * 2
    activity = seen(gpu, tmp_path, *launched(GEMM), *waits, TO_HOST, OWN)
    assert (activity.synchronizations, activity.copies_to_host) == (2, 1)
    assert activity.kernels["copy"]["count"] == 1


def test_a_call_that_waits_for_nothing_has_our_own_synchronization_alone(gpu, tmp_path):
    activity = seen(gpu, tmp_path, *launched(GEMM), OWN)
    assert (activity.synchronizations, activity.copies_to_host) == (0, 0)
    ended = summed([*launched(GEMM), OWN, OWN], calls=1)  # the profiler ends with one of its own
    assert ended.synchronizations == 0


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)"),
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
        ("cuda_runtime", "cudaStreamWaitEvent"),
        ("cuda_runtime", "cudaEventRecord"),
        ("cuda_sync", "Stream Synchronize"),
        ("kernel", "cudaStreamSynchronize"),
    ],
)
def test_what_no_host_waits_for(category, name):
    activity = summed([*launched(GEMM), *[event(category, name)] * 9], calls=1)
    assert (activity.synchronizations, activity.copies_to_host) == (0, 0)


def test_a_copy_of_hip_is_told_by_its_own_name():
    assert summed([event("gpu_memcpy", "CopyDeviceToHost")], calls=1).copies_to_host == 1


def test_the_longest_unknown_names_are_kept(gpu, tmp_path):
    kernels = [event("kernel", f"acme_{number}", float(number)) for number in range(9)]
    assert seen(gpu, tmp_path, *kernels).others == ("acme_8", "acme_7", "acme_6", "acme_5", "acme_4")


def test_a_cpu_is_not_asked(tmp_path):
    calls = []
    assert watched(lambda: calls.append(1), device_kind="cpu", folder=tmp_path) == Activity(unseen=NONE_ON_CPU)
    assert calls == []


def test_without_torch(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert watched(lambda: None, device_kind="cuda", folder=tmp_path).unseen == (
        "torch, whose profiler sees kernels, is not installed beside the engine"
    )


def test_a_torch_without_the_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    expected = f"torch {torch.__version__} beside the engine is not for this GPU"
    assert watched(lambda: None, device_kind="rocm", folder=tmp_path).unseen == expected


def test_a_profiler_that_fails_does_not_lose_the_measurement(gpu, monkeypatch, tmp_path):
    def refuse(**options):
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    monkeypatch.setattr(torch.profiler, "profile", refuse)
    assert seen(gpu, tmp_path).unseen == "torch's profiler failed: RuntimeError: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"


def test_what_the_real_profiler_writes_can_be_read(tmp_path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        torch.ones(3).add(1)
    path = tmp_path / "trace.json"
    profiled.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    assert {"aten::add"} <= {one["name"] for one in events if one.get("cat") == "cpu_op"}
    assert summed(events, calls=1).unseen == "torch's profiler saw no kernel"
