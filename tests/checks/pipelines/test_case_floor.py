"""The floor of a case: what it called, in which type, on which device."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from sample_values import case, failed, measurement

from pytest_sdperf.checks.pipelines.case_floor import with_floor
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.floor import Kernel, Work

H100 = Device("cuda", "NVIDIA H100 80GB HBM3", "h100-sxm5-80gb")
STRANGE = Device("cuda", "NVIDIA X1", "x1-24gb")
CPU = Device("cpu", "A CPU", "cpu-a-2c")
TFLOP = {"text_encoder": 0.01, "text_encoder_2": 0.1, "unet": 1.6, "vae_decoder": 2.5}
RATES = Calibration(790e12, 3.0e12, "float16", "torch 2.13.0")


def runner(*components, device=H100, has_module=True, pipeline=None, upcast=(), error=None):
    """A case that calls these components, in half precision but for `upcast`."""

    def of(model, component, workload):
        assert (model, workload.height) == ("sd15-thin", 128)
        if error:
            raise error
        return Work((Kernel("product", int(TFLOP[component] * 1e12), 10, 1),), weights=10, tensors=10)

    def dtype(name):
        return "float64" if upcast == "float64" else "float32" if name in upcast else "float16"

    return SimpleNamespace(
        case=case(),
        components=components,
        is_pipeline=len(components) > 1,
        builds=lambda: {name: SimpleNamespace(dtype=dtype(name)) for name in components},
        context=SimpleNamespace(
            device=device,
            builder=SimpleNamespace(work=SimpleNamespace(of=of)),
            settings=SimpleNamespace(selection=SimpleNamespace(has_module=has_module, pipeline=pipeline)),
        ),
    )


def test_a_component_is_called_once():
    floor = with_floor(measurement(), runner("unet")).floor
    assert (floor.flops, floor.basis) == (1.6e12, "data sheet")
    assert floor.bound_s == pytest.approx(1.6 / 989.4)


def test_a_calibrated_card_has_the_floor_of_its_own_rates():
    floor = with_floor(measurement(calibration=RATES), runner("unet")).floor
    assert (floor.basis, floor.seconds) == ("measured", pytest.approx(1.6 / 790))


def test_a_request_calls_its_encoders_twice_and_its_unet_as_often_as_was_counted():
    floor = with_floor(measurement(calls=51), runner(*TFLOP)).floor
    assert floor.flops == pytest.approx((2 * 0.01 + 2 * 0.1 + 51 * 1.6 + 2.5) * 1e12)


def test_a_component_in_float32_takes_twice_as_long():
    plain, upcast = (
        with_floor(measurement(calls=1), runner("unet", "vae_decoder", upcast=names)).floor
        for names in ((), ("vae_decoder",))
    )
    assert upcast.seconds - plain.seconds == pytest.approx(2.5 / 989.4)


@pytest.mark.parametrize("measured", [failed("oom", "no room"), failed("crash", "it ended")])
def test_what_was_not_measured_has_none(measured):
    assert with_floor(measured, runner("unet")) is measured


def test_a_processor_has_none_and_nothing_is_said():
    measured = measurement()
    assert with_floor(measured, runner("unet", device=CPU)) is measured


NO_RATE = "neither a data sheet nor a calibration tells what this device does at most in this dtype"
NO_MODULE = "operations are counted on torch modules, and none stands for external graphs"
NO_TORCH = WorkerError("ModuleNotFoundError: No module named 'torch'", reason="error")


@pytest.mark.parametrize(
    ("unknown", "why"),
    [
        (runner("unet", device=STRANGE), NO_RATE),
        (runner("unet", upcast="float64"), NO_RATE),
        (runner("unet", has_module=False), NO_MODULE),
        (
            runner("unet", has_module=False, pipeline="mypipe:make"),
            "operations are counted on torch modules, and none stands for a pipeline of your own",
        ),
        (runner("unet", error=NO_TORCH), f"counting the operations failed ({NO_TORCH})"),
    ],
)
def test_what_is_not_known_is_said(unknown, why):
    assert with_floor(measurement(), unknown) == dataclasses.replace(measurement(), floor_not_known=why)
