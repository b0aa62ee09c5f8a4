"""What the CUDA provider is asked for. The provider itself needs a GPU: `test_real_ort_cuda.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
import torch
from fake_onnxruntime_session import SHAPES, FakeSession

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.values import Build, TensorSpec
from pytest_sdperf.engines import _ort_memory
from pytest_sdperf.engines.ort_cuda import GEMM_OPTIONS, OrtCudaEngine, provider_options
from pytest_sdperf.models import sd15, sd21
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import ProbeModel

DEFAULTS = {"device_id": "3", "enable_cuda_graph": "0", "cudnn_conv_algo_search": "EXHAUSTIVE", "use_tf32": "0"}
TRT_FLASH = "ORT_DISABLE_TRT_FLASH_ATTENTION"


def asked(dtype="float32", **options):
    return provider_options(OrtCudaEngine().all_options(options), 3, dtype=dtype)


def test_without_options_older_versions_understand_it_too():
    assert asked() == DEFAULTS


@pytest.mark.parametrize(
    ("option", "value", "name", "given"),
    [
        ("cuda_graph", "on", "enable_cuda_graph", "1"),
        ("tf32", "on", "use_tf32", "1"),
        ("conv_search", "heuristic", "cudnn_conv_algo_search", "HEURISTIC"),
        ("conv_search", "default", "cudnn_conv_algo_search", "DEFAULT"),
        ("conv_bias", "on", "fuse_conv_bias", "1"),
        ("conv_workspace", "limited", "cudnn_conv_use_max_workspace", "0"),
        ("arena", "same-as-requested", "arena_extend_strategy", "kSameAsRequested"),
        ("sdpa", "flash", "sdpa_kernel", "1"),
        ("sdpa", "efficient", "sdpa_kernel", "2"),
        ("sdpa", "cudnn", "sdpa_kernel", "8"),
        ("sdpa", "math", "sdpa_kernel", "16"),
    ],
)
def test_each_option_is_one_of_the_providers(option, value, name, given):
    assert value in OrtCudaEngine.options[option].choices
    assert asked(**{option: value}) == DEFAULTS | {name: given}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("tf32", "given"), [({}, "1"), ({"tf32": "on"}, "1"), ({"tf32": "off"}, "0")])
def test_half_precision_keeps_its_tensor_cores_unless_tf32_is_forbidden_by_name(dtype, tf32, given):
    assert asked(dtype, **tf32) == DEFAULTS | {"use_tf32": given}


class Model(ProbeModel):
    upcast = False

    def config(self, component):
        return {"upcast_attention": self.upcast}

    def inputs(self, component, workload):
        names = {"sample": "float", "timestep": "float32"}
        return tuple(TensorSpec(name, dtype, SHAPES[name]) for name, dtype in names.items())

    def outputs(self, component, workload):
        return (TensorSpec("out_sample", "float", SHAPES["out_sample"]),)


@pytest.fixture
def sessions(monkeypatch):
    """Sessions that were made, with what each was asked for."""
    made = []

    def session(path, options, *, providers):
        made.append(SimpleNamespace(providers=providers, environment=os.environ.get(TRT_FLASH)))
        return FakeSession()

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    on_host = _ort_memory.TorchMemory("cuda", 3, torch_device="cpu")
    monkeypatch.setattr(_ort_memory, "cuda_memory", lambda index: on_host)
    return made


def load(model=None, dtype="float16", **options):
    engine = OrtCudaEngine()
    request = LoadRequest(
        build=Build("k", "onnx", Path("model.onnx"), dtype),
        model=model or Model(),
        component="unet",
        workload=SMALL,
        device_kind="cuda",
        device_index=3,
        options=engine.all_options(options),
        work_dir=Path(),
    )
    return engine.load(request)


def test_the_session_gets_the_options_and_the_cpu_behind_them(sessions):
    with load(sdpa="cudnn", conv_bias="on") as runner:
        assert runner.facts()["attention"] == "cudnn"
        assert (runner.facts()["conv_search"], runner.facts()["tf32"]) == ("exhaustive", "on")
    (session,) = sessions
    options = DEFAULTS | {"use_tf32": "1", "sdpa_kernel": "8", "fuse_conv_bias": "1"}
    assert session.providers == [("CUDAExecutionProvider", options), "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("dtype", "asked", "told"),
    [
        ("float16", {}, "on"),
        ("float16", {"tf32": "off"}, "off"),
        ("float32", {}, "off"),
        ("float32", {"tf32": "on"}, "on"),
    ],
)
def test_it_says_whether_tf32_was_allowed(dtype, asked, told, sessions):
    with load(dtype=dtype, **asked) as runner:
        assert runner.facts()["tf32"] == told


@pytest.mark.parametrize(
    ("asked", "dtype", "told"),
    [
        (None, "float16", "float32"),
        ("0", "float16", "float32"),
        ("1", "float16", "float16"),
        ("3", "float16", "float16"),
        ("2", "float16", "float32"),
        ("1", "float32", "float32"),
        ("many", "float16", "float32"),
    ],
)
def test_it_says_in_which_type_cublas_accumulates(asked, dtype, told, sessions, monkeypatch):
    monkeypatch.delenv(GEMM_OPTIONS, raising=False)
    if asked is not None:
        monkeypatch.setenv(GEMM_OPTIONS, asked)
    with load(dtype=dtype) as runner:
        assert runner.facts()["accumulation"] == told


def test_attention_is_no_fact_where_onnxruntime_chooses(sessions):
    with load() as runner:
        assert "attention" not in runner.facts()


class FakeStream:
    """A stream of torch, which notes what it was made to wait for."""

    cuda_stream = 4711

    def __init__(self, device=None):
        self.device, self.waited = device, []

    def wait_stream(self, other):
        self.waited.append(other)


def test_a_stream_of_torch_is_a_new_one_which_the_session_runs_on(sessions, monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(
        _ort_memory.TorchMemory, "make", lambda self, shape, dtype: torch.empty(shape, dtype=torch.half)
    )
    with load(stream="torch") as runner:
        memory = runner._memory
    expected = DEFAULTS | {"use_tf32": "1", "user_compute_stream": "4711"}
    assert sessions[0].providers[0] == ("CUDAExecutionProvider", expected)
    assert isinstance(memory, _ort_memory.SharedStreamMemory)
    assert memory.stream.device == 3


def test_on_a_shared_stream_copies_wait_for_what_made_the_tensor_and_nobody_waits_on_the_host(monkeypatch):
    entered = []
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: entered.append(stream) or nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"current of {device}")
    stream = FakeStream()
    memory = _ort_memory.SharedStreamMemory("cuda", 3, torch_device="cpu", stream=stream)
    buffer = memory.make((2,), "float32")
    memory.write(buffer, np.array([1, 2], "float32"))
    assert (buffer.tolist(), entered, stream.waited) == ([1, 2], [stream], [])

    class OnGpu:
        is_cuda, device = True, "cuda:3"

    copied = []
    memory.write_tensor(SimpleNamespace(copy_=copied.append), OnGpu())
    assert (len(copied), entered, stream.waited) == (1, [stream, stream], ["current of cuda:3"])
    memory.settle(SimpleNamespace(is_cuda=True))  # a synchronize would need a GPU


def test_a_stream_of_torch_needs_torch(monkeypatch):
    engine = OrtCudaEngine()
    assert engine.refuses_options(engine.all_options({"stream": "torch"}), "cuda") is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("pytest_sdperf.engines.ort_cuda.pip", lambda: "pip")
    assert engine.refuses_options(engine.all_options({}), "cuda") is None
    assert engine.refuses_options(engine.all_options({"stream": "torch"}), "cuda") == (
        "stream=torch shares a stream with package 'torch', which is not installed; type: pip install torch, or "
        "ort-cuda:stream=own"
    )


@pytest.mark.parametrize("before", [None, "0"])
@pytest.mark.parametrize(("upcast", "inside"), [(True, "1"), (False, None)])
def test_attention_that_does_not_fit_float16_does_without_the_kernel_that_overflows(
    before, upcast, inside, sessions, monkeypatch
):
    if before is not None:
        monkeypatch.setenv(TRT_FLASH, before)
    model = Model()
    model.upcast = upcast
    with load(model):
        assert sessions[0].environment == (inside or before)
        assert os.environ.get(TRT_FLASH) == before


def test_that_is_sd21_at_768_pixels():
    models = {model.name: model for model in (*sd15.MODELS, *sd21.MODELS)}
    with_overflow = {name for name, model in models.items() if model.config("unet").get("upcast_attention")}
    assert with_overflow == {"sd21", "sd21-thin"}
    assert not models["sd21"].config("vae_decoder").get("upcast_attention")


def test_torch_is_imported_before_onnxruntime_and_before_the_turn_of_the_process():
    code = (
        "import sys; from pytest_sdperf.engines.ort_cuda import OrtCudaEngine; OrtCudaEngine().preload(None, 'unet'); "
        "print([name for name in sys.modules if name in ('torch', 'onnxruntime')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['torch', 'onnxruntime']"
