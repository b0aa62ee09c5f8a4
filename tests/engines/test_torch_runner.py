"""In which types the torch engines give a module its inputs."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from extras import extra_command

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.values import Build, TensorSpec
from pytest_sdperf.engines import _torch
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import ProbeModel

DECLARED = {"sample": "float", "timestep": "float32", "input_ids": "int64"}


class Typed(ProbeModel):
    def inputs(self, component, workload):
        return tuple(TensorSpec(name, dtype, (1,)) for name, dtype in DECLARED.items())

    def outputs(self, component, workload):
        return tuple(TensorSpec(name, "float", (1,)) for name in DECLARED)


def runner_in(dtype, tmp_path):
    request = LoadRequest(
        build=Build("k", "module", tmp_path / "w", dtype),
        model=Typed(),
        component="unet",
        workload=SMALL,
        device_kind="cpu",
        device_index=0,
        options={},
        work_dir=tmp_path,
    )
    return _torch.TorchRunner(lambda *inputs: inputs, request)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("given", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("by", ["call", "bind"])
def test_every_input_has_the_type_that_the_model_declares(dtype, given, by, tmp_path):
    runner = runner_in(dtype, tmp_path)
    inputs = {"sample": torch.ones(1, dtype=given), "timestep": torch.ones(1, dtype=given), "input_ids": torch.ones(1)}
    if by == "call":
        received = list(runner.call(inputs).values())
    else:
        runner.bind({name: tensor.numpy() for name, tensor in inputs.items()})
        received = runner._bound
    assert [tensor.dtype for tensor in received] == [getattr(torch, dtype), torch.float32, torch.int64]


def test_a_fractional_timestep_is_not_rounded(tmp_path):
    runner = runner_in("float16", tmp_path)
    inputs = {
        "sample": np.ones(1, "float32"),
        "timestep": np.full(1, 980.6, "float32"),
        "input_ids": np.ones(1, "int64"),
    }
    runner.bind(inputs)
    runner.run()
    assert runner.fetch()["timestep"] == np.float32(980.6)
    inputs["timestep"][:] = 0
    runner.run()
    assert runner.fetch()["timestep"] == np.float32(980.6)


@pytest.mark.parametrize(
    ("kind", "absent", "message"),
    [
        ("cpu", "torch", f"package 'torch' is not installed; type: {extra_command('cpu')}"),
        ("cuda", "torch", f"package 'torch' is not installed; type: {extra_command('cuda')}"),
        ("cuda", "diffusers", f"package 'diffusers' is not installed; type: {extra_command('cuda')}"),
        ("rocm", "diffusers", f"package 'diffusers' is not installed; type: {extra_command('rocm')}"),
        (
            "rocm",
            "torch",
            (
                "package 'torch' is not installed, and PyPI's is not for AMD GPUs; "
                "install the one for your ROCm version: https://pytorch.org/get-started/locally/"
            ),
        ),
        ("rocm", "", None),
    ],
)
def test_the_command_installs_the_extra_of_the_device(kind, absent, message, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == absent else find_spec(name))
    assert TorchEngine().missing(kind) == message


def test_the_module_of_a_half_precision_unet_takes_a_float32_timestep():
    from pytest_sdperf.models import sd15

    model = next(model for model in sd15.MODELS if model.thin)
    workload = dataclasses.replace(SMALL)
    module = model.module("unet", weights=None, dtype="float32").to(torch.float16)
    tensors = [
        torch.empty(
            spec.shape, dtype=torch.float16 if spec.dtype == "float" else getattr(torch, spec.dtype), device="meta"
        )
        for spec in model.inputs("unet", workload)
    ]
    with torch.inference_mode():
        (out,) = module(*tensors)
    assert (out.dtype, tuple(out.shape)) == (torch.float16, model.outputs("unet", workload)[0].shape)


def test_on_a_gpu_the_peak_of_torchs_allocator_is_read_and_then_begun_anew(tmp_path, monkeypatch):
    runner = runner_in("float16", tmp_path)
    assert runner.allocator_peak_bytes(reset=True) is None
    asked = []
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: asked.append(("read", device)) or 2**30)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: asked.append(("reset", device)))
    monkeypatch.setattr(runner, "_device", "cuda:0")
    assert [runner.allocator_peak_bytes(reset=reset) for reset in (True, False)] == [2**30] * 2
    assert asked == [("read", "cuda:0"), ("reset", "cuda:0"), ("read", "cuda:0")]
