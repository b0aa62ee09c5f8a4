"""Estimates against what was measured: docs/measured.md has the numbers of the H200."""

from __future__ import annotations

import pytest

from pytest_sdperf.checks.pipelines.measure import timing_plan
from pytest_sdperf.core.units import MEGABYTE
from pytest_sdperf.core.values import Case
from pytest_sdperf.models import sd15
from pytest_sdperf.models.external_pipeline import external_model
from pytest_sdperf.plugin.plan import estimates
from pytest_sdperf.plugin.plan.estimates import Speed

SD15, THIN = sd15.MODELS
H200 = Speed.of("cuda", "h200", cores=1)


def unet(batch_size: int = 1) -> Case:
    return Case("sd15", "unet", "ort-cuda", "x", batch_size=batch_size)


@pytest.mark.parametrize(
    ("batch_size", "dtype", "fused", "measured_mb"),
    [
        (1, "float32", False, 11_909),
        (1, "float16", False, 6_787),
        (8, "float16", False, 31_383),
        (1, "float16", True, 2_693),
        (8, "float16", True, 6_807),
    ],
)
def test_device_memory_is_estimated_within_a_third(batch_size, dtype, fused, measured_mb):
    needed = estimates.gpu_bytes(unet(batch_size), SD15, dtype=dtype, fused=fused)
    assert needed is not None
    assert needed / MEGABYTE == pytest.approx(measured_mb, rel=0.33)


@pytest.mark.parametrize(
    ("batch_size", "dtype", "measured_ms"),
    [(1, "float32", 73.0), (1, "float16", 16.5), (1, "float16", 6.57), (8, "float16", 84.4), (8, "float16", 53.4)],
)
def test_a_call_is_estimated_within_a_factor_of_two(batch_size, dtype, measured_ms):
    seconds = estimates.request_seconds(unet(batch_size), SD15, H200, dtype=dtype)
    assert seconds is not None
    assert 0.5 < seconds * 1000 / measured_ms < 2


def test_nothing_is_estimated_of_a_model_whose_components_are_not_known():
    whole, model = (
        Case("mypipe.make", "pipeline", "diffusers", "as-is", steps=4),
        external_model("mypipe.make", on_cpu=True),
    )
    assert estimates.request_seconds(whole, model, H200, dtype="float16") is None
    assert estimates.weights_bytes(whole, model, dtype="float16") is None


@pytest.mark.parametrize("name", ["h200", "H200"])
def test_a_card_is_known_however_it_is_written(name):
    assert estimates.card(name) == estimates.card("h200")


def test_a_request_calls_the_unet_once_per_step_and_once_more():
    whole = Case("sd15", "pipeline", "torch", "fp16", steps=50)
    seconds = estimates.request_seconds(whole, SD15, H200, dtype="float16")
    once = estimates.request_seconds(unet(), SD15, H200, dtype="float16")
    assert seconds is not None
    assert once is not None
    assert 51 * once < seconds < 55 * once


def test_exports_and_fusions_of_both_sizes_are_met_within_a_factor_of_two():
    narrow, full = THIN.parameters("unet"), SD15.parameters("unet")
    for step, parameters, measured_s in (
        ("export", narrow, 20),
        ("export", full, 33),
        ("export", 2_567_463_684, 148),
        ("fuse-ort", narrow, 10),
        ("fuse-ort", full, 170),
    ):
        assert 0.5 < estimates.step_seconds(step, parameters) / measured_s < 2, step


def test_a_step_leaves_weights_in_its_dtype():
    assert estimates.step_bytes("export", 10, "float16") == 40
    assert estimates.step_bytes("fuse-native", 10, "float16") == 20
    assert estimates.step_bytes("fuse-native", 10, "float32") == 40
    assert estimates.step_bytes("expect", 10, "float16") == 0


@pytest.mark.parametrize(
    ("whole", "kind", "call_s", "calls"),
    [
        (False, "cuda", 0.01, 2 + 3 + 50),
        (False, "cuda", 0.1, 2 + 3 + 10),
        (False, "cpu", 4.0, 2 + 1 + 5),
        (True, "cpu", 4.0, 2 + 0 + 2),
        (True, "cuda", 4.0, 2 + 1 + 2),
    ],
)
def test_a_process_makes_as_many_calls_as_its_plan_says(whole, kind, call_s, calls):
    speed = Speed(kind, 1e12)
    plan = timing_plan(whole=whole, device_kind=kind)
    seconds = estimates.process_seconds(plan, call_s, weights_bytes=0, speed=speed)
    assert seconds - (estimates.SEARCH_S if kind == "cuda" else 0) == pytest.approx(calls * call_s)


def test_a_compiler_is_met_within_a_factor_of_two():
    for parameters, measured_s in ((859_520_964, 69), (859_520_964, 85), (2_567_463_684, 145)):
        assert 0.5 < estimates.compile_seconds(2 * parameters) / measured_s < 2


def test_a_card_is_known_by_its_slug_and_by_its_family():
    assert Speed.of("cuda", "a100", cores=1) == Speed.of("cuda", "a100-sxm4-40gb", cores=1)
    assert Speed.of("cuda", "something", cores=1).flops == 100e12
    assert Speed.of("cpu", "", cores=4).flops == 40e9


def test_without_a_count_of_parameters_nothing_is_estimated():
    class Unknown:
        components = ("unet",)

        def parameters(self, component):
            return None

    model = Unknown()
    assert estimates.request_seconds(unet(), model, H200, dtype="float16") is None
    assert estimates.weights_bytes(unet(), model, dtype="float16") is None
    assert estimates.gpu_bytes(unet(), model, dtype="float16", fused=True) is None
