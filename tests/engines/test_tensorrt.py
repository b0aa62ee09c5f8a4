"""The engine on TensorRT up to the library call; the library is a fake that keeps the real signatures."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import fake_tensorrt
import numpy as np
import pytest
import torch

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError
from pytest_sdperf.engines import _tensorrt
from pytest_sdperf.engines.tensorrt import TensorRtEngine
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import WIDTH, ProbeModel

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "tensorrt-signatures.json").read_text(encoding="utf-8"))


class FakeStream:
    cuda_stream = 7

    def __init__(self, device=None):
        self.waited = 0

    def synchronize(self):
        self.waited += 1

    def wait_stream(self, stream):
        self.waited += 1


class FakeGraph:
    def __init__(self):
        self.calls = []

    def replay(self):
        fake_tensorrt.STATE.log.append("replayed")
        for call in self.calls:
            call()


@contextlib.contextmanager
def capture(graph, *, stream):
    fake_tensorrt.STATE.capturing = graph.calls
    yield
    fake_tensorrt.STATE.capturing = None


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """TensorRT and torch's CUDA calls, without a GPU."""
    monkeypatch.setitem(sys.modules, "tensorrt", fake_tensorrt)
    monkeypatch.setattr(fake_tensorrt, "STATE", fake_tensorrt.State())
    for name, fake in {
        "Stream": FakeStream,
        "current_stream": FakeStream,
        "stream": lambda stream: contextlib.nullcontext(),
        "CUDAGraph": FakeGraph,
        "graph": capture,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)


def request_in(folder, **options):
    engine = TensorRtEngine()
    model = ProbeModel()
    return LoadRequest(
        build=model.build("onnx", folder),
        model=model,
        component="unet",
        workload=SMALL,
        device_kind="cpu",
        device_index=0,
        options={**{name: option.default for name, option in engine.options.items()}, **options},
        work_dir=folder,
        shapes="static",
    )


def outputs_of(runner, inputs):
    runner.bind(inputs)
    runner.run()
    runner.synchronize()
    return runner.fetch()["out_sample"]


@pytest.mark.parametrize("version", RECORDED["versions"])
@pytest.mark.parametrize("name", sorted(next(iter(RECORDED["versions"].values()))))
def test_the_fake_has_the_signatures_of_the_real_bindings(version, name):
    recorded = RECORDED["versions"][version][name]
    fake = getattr(fake_tensorrt, name)
    own = {attribute for attribute in vars(fake) if not attribute.startswith("_")}
    own |= {"__init__"} if "__init__" in recorded else set()
    values = {attribute for attribute, text in recorded.items() if isinstance(text, str)}
    if not isinstance(fake, type(fake_tensorrt.DataType)):
        assert own <= set(recorded)
    for attribute, texts in recorded.items():
        if attribute in values:
            continue
        mine = list(inspect.signature(getattr(fake, attribute)).parameters)
        real = [re.findall(r"[(,] ?(\w+):", text) for text in texts]
        assert any(mine == names[: len(mine)] for names in real)


@pytest.mark.parametrize("cuda_graph", ["off", "on"])
def test_it_computes_what_the_component_computes_for_changing_inputs(tmp_path, cuda_graph):
    request = request_in(tmp_path, cuda_graph=cuda_graph)
    model = request.model
    with TensorRtEngine().load(request) as runner:
        for seed in range(4):
            inputs = model.example("unet", SMALL, seed=seed)
            assert np.allclose(outputs_of(runner, inputs), model.expected(inputs)["out_sample"], atol=1e-4)
        runner.run_plainly()
        assert np.allclose(runner.fetch()["out_sample"], model.expected(inputs)["out_sample"], atol=1e-4)
        inputs = {name: torch.from_numpy(array) for name, array in model.example("unet", SMALL, seed=9).items()}
        called = runner.call(inputs)["out_sample"].numpy()
        assert np.allclose(called, model.expected(model.example("unet", SMALL, seed=9))["out_sample"], atol=1e-4)
        facts = runner.facts()
    assert facts == {
        "partitions": {"engines": 1, "cpu_nodes": 0},
        "layers": 3,
        "cuda_graph": {"requested": cuda_graph == "on", "replayed": cuda_graph == "on", "changed_inputs": None},
    }
    steps = [entry for entry in fake_tensorrt.STATE.log if isinstance(entry, str)]
    assert steps == (
        ["executed"] * 6 if cuda_graph == "off" else ["executed", "captured", *["replayed"] * 3, "executed", "replayed"]
    )


def test_the_engine_is_built_once_strongly_typed_and_without_tf32(tmp_path):
    request = request_in(tmp_path, builder_level="5")
    for _ in range(2):
        with TensorRtEngine().load(request):
            pass
    ((network, config),) = fake_tensorrt.STATE.log
    assert network.flags == 1 << fake_tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    assert config.builder_optimization_level == 5
    assert config._cleared == [fake_tensorrt.BuilderFlag.TF32]
    assert config._profiles == []
    assert (tmp_path / "unet.timing").read_bytes() == b"timings"


def test_tf32_stays_on_where_it_was_asked_for(tmp_path):
    with TensorRtEngine().load(request_in(tmp_path, tf32="on")):
        pass
    ((_, config),) = fake_tensorrt.STATE.log
    assert config._cleared == []


def test_an_open_graph_gets_the_shapes_from_half_the_request_to_the_whole(tmp_path, monkeypatch):
    request = request_in(tmp_path)
    import onnx

    graph = onnx.load(request.build.path)
    graph.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(graph, request.build.path)
    with TensorRtEngine().load(request):
        pass
    ((_, config),) = fake_tensorrt.STATE.log
    assert [profile.shapes for profile in config._profiles] == [{"sample": ((2, WIDTH), (2, WIDTH), (2, WIDTH))}]


@pytest.mark.parametrize(
    ("what", "value", "message"),
    [
        (
            "refuses",
            "In node 3: no importer for SkipLayerNormalization",
            "TensorRT 11.4.0.106 cannot read the graph of the unet: In node 3: no importer for SkipLayerNormalization",
        ),
        ("builds", False, "TensorRT 11.4.0.106 did not build the engine of the unet: see the worker's stderr."),
        ("loads", False, "TensorRT 11.4.0.106 did not load the engine of the unet: see the worker's stderr."),
        ("prepares", False, "TensorRT 11.4.0.106 did not prepare the engine of the unet: see the worker's stderr."),
    ],
)
def test_what_tensorrt_refuses_is_said(tmp_path, what, value, message):
    setattr(fake_tensorrt.STATE, what, value)
    with pytest.raises(BuildError) as caught, TensorRtEngine().load(request_in(tmp_path)):
        pass
    assert str(caught.value) == message


NO_ROOM = "[executionContext.cpp::ExecutionContext::470] Error Code 2: OutOfMemory (no further information)"
SAID = (("WARNING", "There may not be enough free memory."), ("ERROR", NO_ROOM), ("ERROR", "Error Code 10: none"))


@pytest.mark.parametrize(("what", "verb"), [("builds", "build"), ("loads", "load"), ("prepares", "prepare")])
def test_memory_that_runs_out_is_told_from_a_refusal(tmp_path, capsys, what, verb):
    setattr(fake_tensorrt.STATE, what, False)
    fake_tensorrt.STATE.says = SAID
    with pytest.raises(OutOfMemoryError) as caught, TensorRtEngine().load(request_in(tmp_path)):
        pass
    assert str(caught.value) == f"TensorRT 11.4.0.106 did not {verb} the engine of the unet: {NO_ROOM}"
    assert f"[TensorRT] [ERROR] {NO_ROOM}\n" in capsys.readouterr().err


def test_memory_that_runs_out_in_a_call_is_told_from_another_failure(tmp_path):
    fake_tensorrt.STATE.executes = False
    with TensorRtEngine().load(request_in(tmp_path)) as runner:
        runner.bind(ProbeModel().example("unet", SMALL))
        with pytest.raises(RuntimeError) as caught:
            runner.run()
        assert str(caught.value) == (
            "TensorRT did not execute the component; the last lines of the worker's stderr say why"
        )
        fake_tensorrt.STATE.says = SAID
        with pytest.raises(OutOfMemoryError) as caught:
            runner.run()
        assert str(caught.value) == f"TensorRT did not execute the component: {NO_ROOM}"


def test_a_kernel_that_was_left_out_for_lack_of_memory_is_no_failure(tmp_path, monkeypatch):
    fake_tensorrt.STATE.says = SAID
    with TensorRtEngine().load(request_in(tmp_path)):
        pass
    fake_tensorrt.STATE.prepares, fake_tensorrt.STATE.says = False, ()
    with pytest.raises(BuildError), TensorRtEngine().load(request_in(tmp_path)):
        pass


def test_an_input_of_another_shape_is_refused(tmp_path):
    with TensorRtEngine().load(request_in(tmp_path)) as runner, pytest.raises(ValueError) as caught:
        runner.bind({"sample": np.ones((3, WIDTH), np.float32), "timestep": np.ones(1, np.int64)})
    assert str(caught.value) == f"input 'sample' has shape (3, {WIDTH}); the component was loaded for (2, {WIDTH})"


# ---------------------------------------------------------------------------------------------- what is installed

INSTALL = "type: pip install --extra-index-url https://pypi.nvidia.com 'tensorrt-cu13>=10'"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder in which TensorRT may be found, and nowhere else."""
    monkeypatch.delitem(sys.modules, "tensorrt")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.setattr("ctypes.CDLL", cuda_driver(None))
    importlib.invalidate_caches()
    return tmp_path


def cuda_driver(version):
    """What opens a library: the driver's, which supports that version of CUDA, where there is one."""

    class Driver:
        def __init__(self, name):
            if version is None or name != "libcuda.so.1":
                raise OSError(f"{name}: cannot open shared object file: No such file or directory")

        def cuDriverGetVersion(self, found):  # noqa: N802 - its name
            found._obj.value = version
            return 0

    return Driver


def install(site, *modules, version="11.4.0.106"):
    for module in modules:
        (site / module).mkdir()
        (site / module / "__init__.py").write_text(f'__version__ = "{version}"\n')
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ((), f"TensorRT is not installed; PyPI has its bindings only, so {INSTALL}"),
        (
            ("tensorrt_rtx",),
            (
                "TensorRT is not installed (tensorrt_rtx, which is, is another product: it runs on compute capability "
                "8.6, 8.9 and from 12.0 on, and so on no A100, H100, H200 or B200); PyPI has its bindings only, so "
                f"{INSTALL}"
            ),
        ),
        (
            ("tensorrt", "tensorrt_bindings"),
            f"of TensorRT 11.4.0.106 the Python bindings are installed and the libraries are not; {INSTALL}",
        ),
        (("tensorrt", "tensorrt_bindings", "tensorrt_libs"), None),
    ],
)
def test_what_is_missing(site, modules, message):
    install(site, *modules)
    assert TensorRtEngine().missing("cuda") == message


FOR_CUDA_12, FOR_CUDA_13 = 'cuda: Optional[str] = "12.8"', "cuda = '13.0'"
FOR_CPU, FOR_AMD = "cuda: Optional[str] = None", "cuda: Optional[str] = None\nhip: Optional[str] = '7.2.1'"


@pytest.mark.parametrize(
    ("torch_says", "driver", "package"),
    [
        (FOR_CUDA_12, None, "tensorrt-cu12"),
        (FOR_CUDA_12, 13000, "tensorrt-cu12"),
        (FOR_CUDA_13, None, "tensorrt-cu13"),
        ("__version__ = '1.13.1'\ncuda: Optional[str] = '11.7'", 12080, "tensorrt-cu11"),
        (FOR_CPU, 12080, "tensorrt-cu12"),
        (FOR_AMD, 12080, "tensorrt-cu12"),
        (None, 12080, "tensorrt-cu12"),
        (None, 13000, "tensorrt-cu13"),
        (None, 0, "tensorrt-cu13"),  # the driver cannot tell
        (FOR_CPU, None, "tensorrt-cu13"),
    ],
)
def test_it_is_asked_for_in_the_build_for_the_cuda_of_torch_or_else_of_the_driver(
    site, monkeypatch, torch_says, driver, package
):
    monkeypatch.delitem(sys.modules, "torch")
    install(site, "torch")
    if torch_says is not None:
        (site / "torch" / "version.py").write_text(f"__version__ = '2.11.0'\n{torch_says}\n")
    monkeypatch.setattr("ctypes.CDLL", cuda_driver(driver))
    asked = f"type: pip install --extra-index-url https://pypi.nvidia.com '{package}>=10'"
    assert TensorRtEngine().missing("cuda") == f"TensorRT is not installed; PyPI has its bindings only, so {asked}"
    install(site, "tensorrt", "tensorrt_bindings")
    assert TensorRtEngine().missing("cuda") == (
        f"of TensorRT 11.4.0.106 the Python bindings are installed and the libraries are not; {asked}"
    )


def test_the_libraries_of_a_system_serve_too(site, monkeypatch):
    install(site, "tensorrt")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: f"lib{name}.so.11")
    assert TensorRtEngine().missing("cuda") is None
    assert _tensorrt.find_release() == "11.4.0.106"


def test_versions(monkeypatch):
    assert TensorRtEngine().versions() == {"tensorrt": "11.4.0.106", "torch": torch.__version__}


def test_ranges_halve_the_sides_down_to_what_a_unet_can_take():
    seen = []

    class Recording(ProbeModel):
        def inputs(self, component, workload):
            seen.append((workload.batch_size, workload.height, workload.width))
            return super().inputs(component, workload)

    for height, width in ((1024, 768), (128, 64)):
        workload = SMALL.__class__(batch_size=4, height=height, width=width)
        _tensorrt.ranges(SimpleNamespace(workload=workload, model=Recording(), component="unet"))
    assert seen == [(1, 512, 384), (4, 1024, 768), (1, 64, 64), (4, 128, 64)]
