"""The ort-* engines that nothing here can run, up to the session: options, partitions, tuning, what is missing."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from extras import extra_command
from fake_onnxruntime_session import FakeSession
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from test_ort_install import install, site  # noqa: F401 - a fixture
from test_ort_runner import Model, expected, request_for, tensors

from pytest_sdperf import builtins
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.engine_requests import parse_engines
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.selector import Selector
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.settings import Selection
from pytest_sdperf.core.values import Build
from pytest_sdperf.engines import _ort, _ort_compilers, _ort_memory, _ort_nvidia, _rocm, ort_trt
from pytest_sdperf.engines.ort_migraphx import OrtMigraphxEngine
from pytest_sdperf.engines.ort_rocm import OrtRocmEngine
from pytest_sdperf.engines.ort_trt import OrtTrtEngine
from pytest_sdperf.fusing.optimizations import LADDER

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "provider-options.json").read_text(encoding="utf-8"))
ENGINES = (OrtTrtEngine(), OrtMigraphxEngine(), OrtRocmEngine())
FUSED = [optimization.name for optimization in LADDER if optimization.name not in ("fp32", "fp16")]


NODE = SimpleNamespace(domain="", op_type="Conv", name="conv")


class VendorSession(FakeSession):
    """A session of another provider, which keeps what tuning found."""

    def __init__(self, path, options, *, providers):
        super().__init__()
        self.given = providers
        self.entries = {
            name: options.get_session_config_entry(name) for name in ("session.record_ep_graph_assignment_info",)
        }
        self.environment = os.environ.get("ORT_DISABLE_TRT_FLASH_ATTENTION")
        self.tf32 = os.environ.get("NVIDIA_TF32_OVERRIDE")
        self.tuned = []

    def get_providers(self):
        return [entry[0] if isinstance(entry, tuple) else entry for entry in self.given]

    def get_provider_graph_assignment_info(self):
        nodes = {self.get_providers()[0]: 812, "CUDAExecutionProvider": 1, "CPUExecutionProvider": 2}
        return [
            SimpleNamespace(ep_name=name, get_nodes=lambda count=count: [NODE] * count) for name, count in nodes.items()
        ]

    refuses = ""

    def set_tuning_results(self, results, *, error_on_invalid=False):
        if self.refuses and error_on_invalid:
            raise RuntimeError(self.refuses)
        self.tuned.append([] if self.refuses else results)

    def get_tuning_results(self):
        return [{"ep": "ROCMExecutionProvider", "validators": {"ORT_VERSION": "1.22.2"}, "results": {"Gemm": {"n": 3}}}]


@pytest.fixture
def sessions(monkeypatch):
    """Every session that an engine creates, on the memory of CPU tensors."""
    made = []

    def create(*arguments, **keywords):
        made.append(VendorSession(*arguments, **keywords))
        return made[-1]

    def memory(index):
        return _ort_memory.TorchMemory("cuda", index, torch_device="cpu")

    monkeypatch.setattr(onnxruntime, "InferenceSession", create)
    monkeypatch.setattr(_ort_memory, "cuda_memory", memory)
    monkeypatch.setattr(_rocm, "memory", memory)
    return made


def request_of(engine, folder, *, dtype="float16", shapes="static", **options):
    build = Build("k", "onnx", folder / "model.onnx", dtype)
    given = {**{name: option.default for name, option in engine.options.items()}, **options}
    return dataclasses.replace(request_for(Model(), build, **given), shapes=shapes)


def loaded(engine, sessions, folder, **asked):
    with engine.load(request_of(engine, folder, **asked)) as runner:
        inputs = tensors(1)
        assert np.array_equal(runner.call(inputs)["out_sample"].numpy(), expected(inputs).numpy())
        return runner.facts(), sessions[-1]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_every_provider_option_is_one_that_the_library_reads(engine, sessions, tmp_path):
    _, session = loaded(engine, sessions, tmp_path, shapes="dynamic")
    name, options = session.given[0]
    assert set(options) <= set(RECORDED[name]["options"])
    assert all(isinstance(value, str) for value in options.values())
    assert session.given[-1] == "CPUExecutionProvider"
    assert session.entries == {"session.record_ep_graph_assignment_info": "1"}


@pytest.mark.parametrize(("dtype", "half"), [("float16", "1"), ("float32", "0")])
def test_tensorrt_keeps_engines_and_timings_in_the_folder_and_takes_the_precision_of_the_graph(
    sessions, tmp_path, dtype, half
):
    facts, session = loaded(OrtTrtEngine(), sessions, tmp_path, dtype=dtype)
    assert session.given == [
        (
            "TensorrtExecutionProvider",
            {
                "device_id": "3",
                "trt_fp16_enable": half,
                "trt_cuda_graph_enable": "0",
                "trt_builder_optimization_level": "3",
                "trt_engine_cache_enable": "1",
                "trt_engine_cache_path": str(tmp_path),
                "trt_timing_cache_enable": "1",
                "trt_timing_cache_path": str(tmp_path),
            },
        ),
        # Half precision keeps tensor cores where TensorRT leaves a convolution to this provider.
        ("CUDAExecutionProvider", {"device_id": "3", "use_tf32": half}),
        "CPUExecutionProvider",
    ]
    assert facts["partitions"] == {"engines": 1, "cpu_nodes": 2}


@pytest.mark.parametrize("upcast", [True, False])
def test_attention_that_overflows_is_avoided_where_the_cuda_provider_may_run_it(
    sessions, tmp_path, upcast, monkeypatch
):
    monkeypatch.delenv("ORT_DISABLE_TRT_FLASH_ATTENTION", raising=False)
    monkeypatch.setattr(Model, "config", lambda self, component: {"upcast_attention": upcast})
    _, session = loaded(OrtTrtEngine(), sessions, tmp_path)
    assert session.environment == ("1" if upcast else None)
    assert "ORT_DISABLE_TRT_FLASH_ATTENTION" not in os.environ


@pytest.mark.parametrize(("tf32", "override"), [("off", "0"), ("on", None)])
def test_tf32_is_forbidden_while_a_session_is_made_and_runs_unless_it_is_asked_for(
    sessions, tmp_path, tf32, override, monkeypatch
):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "elsewhere")
    engine, seen = OrtTrtEngine(), []
    monkeypatch.setattr(_ort_nvidia, "import_libraries", lambda: seen.append(os.environ.get("NVIDIA_TF32_OVERRIDE")))
    with engine.load(request_of(engine, tmp_path, dtype="float32", tf32=tf32)):
        seen.append(os.environ.get("NVIDIA_TF32_OVERRIDE"))
    assert [*seen, sessions[-1].tf32] == [override] * 4
    assert sessions[-1].given[1][1]["use_tf32"] == ("1" if tf32 == "on" else "0")
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "elsewhere"


def test_a_dynamic_build_names_the_shapes_of_every_input(tmp_path):
    options = ort_trt.provider_options(request_of(OrtTrtEngine(), tmp_path, shapes="dynamic", cuda_graph="on"))
    shapes = {name: value for name, value in options.items() if "profile" in name}
    assert shapes == {f"trt_profile_{name}_shapes": "sample:2x4,timestep:1" for name in ("min", "opt", "max")}
    assert options["trt_cuda_graph_enable"] == "1"


def test_migraphx_keeps_what_it_compiles_and_quantizes_only_on_request(sessions, tmp_path):
    facts, session = loaded(OrtMigraphxEngine(), sessions, tmp_path)
    assert session.given[0] == (
        "MIGraphXExecutionProvider",
        {
            "device_id": "3",
            "migraphx_fp16_enable": "0",
            "migraphx_exhaustive_tune": "0",
            "migraphx_model_cache_dir": str(tmp_path),
        },
    )
    assert facts["partitions"] == {"engines": 1, "cpu_nodes": 2}
    _, session = loaded(OrtMigraphxEngine(), sessions, tmp_path, quantize="fp16", exhaustive_tune="on")
    assert session.given[0][1]["migraphx_fp16_enable"] == "1"
    assert session.given[0][1]["migraphx_exhaustive_tune"] == "1"


def test_rocm_tunes_always_and_hands_what_it_found_to_the_next_process(sessions, tmp_path):
    facts, session = loaded(OrtRocmEngine(), sessions, tmp_path)
    assert session.given[0] == (
        "ROCMExecutionProvider",
        {"device_id": "3", "tunable_op_enable": "1", "tunable_op_tuning_enable": "1", "enable_hip_graph": "0"},
    )
    assert (facts["tuning"], session.tuned) == ("in this process: nothing was kept", [])
    facts, session = loaded(OrtRocmEngine(), sessions, tmp_path)
    assert (facts["tuning"], session.tuned) == ("from before", [session.get_tuning_results()])


def test_tuning_results_that_rocm_refuses_are_found_anew_and_what_others_share_stays(sessions, tmp_path, monkeypatch):
    kept, folder = tmp_path / "kept.json", tmp_path / "mine"
    kept.write_text("[]")
    folder.mkdir()
    (folder / "unet-tuning.json").symlink_to(kept)
    monkeypatch.setattr(VendorSession, "refuses", "TuningResults validation failed: ORT_VERSION mismatch.")
    facts, session = loaded(OrtRocmEngine(), sessions, folder)
    assert facts["tuning"] == (
        "in this process: what was kept is refused (TuningResults validation failed: ORT_VERSION mismatch)"
    )
    assert session.tuned == []
    assert json.loads((folder / "unet-tuning.json").read_text()) == session.get_tuning_results()
    assert kept.read_text() == "[]"


def test_the_compiler_and_the_rocm_that_come_with_the_system_are_among_the_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(_rocm, "_INSTALLATIONS", tmp_path)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: f"lib{name}.so.9")
    own = {"onnxruntime", "torch"}
    assert set(OrtRocmEngine().versions()) - set(_ort.versions()) == {"torch"}
    assert OrtMigraphxEngine().versions()["migraphx"] == "libmigraphx.so.9"
    library = tmp_path / "rocm-7.2.0" / "lib" / "libmigraphx.so.2015000.0.70200"
    library.parent.mkdir(parents=True)
    library.touch()
    (library.parent / "libmigraphx.so").symlink_to(library)
    (tmp_path / "rocm-7.2.0" / ".info").mkdir()
    (tmp_path / "rocm-7.2.0" / ".info" / "version").write_text("7.2.0-43\n")
    (tmp_path / "rocm").symlink_to(tmp_path / "rocm-7.2.0")
    found = OrtMigraphxEngine().versions()
    assert {name: version for name, version in found.items() if name not in own | set(_ort.versions())} == {
        "rocm": "7.2.0-43",
        "migraphx": "libmigraphx.so.2015000.0.70200",
        "migraphx_c": "libmigraphx_c.so.9",
    }
    assert OrtRocmEngine().versions()["rocm"] == "7.2.0-43"


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_which_optimizations_apply(engine):
    refused = {optimization: engine.supports(optimization) for optimization in FUSED}
    own = {
        optimization: f"{engine.name} fuses for itself; the operators of {optimization} are onnxruntime's own"
        for optimization in FUSED
    }
    assert refused == (dict.fromkeys(FUSED) if engine.name == "ort-rocm" else own)
    assert (engine.supports("fp32"), engine.supports("fp16")) == (None, None)
    assert engine.default_optimizations("cuda") == (("bias-add",) if engine.name == "ort-rocm" else ("fp16",))


def test_an_older_onnxruntime_cannot_tell_its_partitions():
    assert _ort_compilers.partitions(object(), "X") == {
        "partitions_not_available": f"onnxruntime {onnxruntime.__version__} does not tell"
    }


def test_a_session_that_was_not_asked_to_remember_cannot_tell_either():
    def fail():
        raise Fail("not recorded")

    session = SimpleNamespace(get_provider_graph_assignment_info=fail)
    assert _ort_compilers.partitions(session, "X") == {"partitions_not_available": "not recorded"}


# ---------------------------------------------------------------------------------------------- what is installed

TENSORRT = "pip install --extra-index-url https://pypi.nvidia.com 'tensorrt-cu13<{}'"
LIBRARY = "libonnxruntime_providers_tensorrt.so"


def install_gpu_build(site, linked=b"libnvinfer.so.10"):  # noqa: F811
    install(site, ("onnxruntime-gpu", "1.31.1"), library=LIBRARY)
    (site / "onnxruntime" / "capi" / LIBRARY).write_bytes(b"\0" + linked + b"\0")


def install_tensorrt(site, version):  # noqa: F811
    for module in ("tensorrt", "tensorrt_bindings", "tensorrt_libs"):
        (site / module).mkdir()
        (site / module / "__init__.py").write_text(f'__version__ = "{version}"\n')
    importlib.invalidate_caches()


def test_a_build_without_tensorrt_is_answered_with_both_commands(site):  # noqa: F811
    install(site, ("onnxruntime", "1.32.0"))
    assert OrtTrtEngine().missing("cuda") == (
        "onnxruntime 1.32.0 has no TensorrtExecutionProvider, and a second build of onnxruntime beside it would "
        f"overwrite its files; type: pip uninstall --yes onnxruntime && {extra_command('cuda')} && "
        + TENSORRT.format(11)
    )


def test_tensorrt_itself_is_asked_for(site):  # noqa: F811
    install_gpu_build(site)
    assert OrtTrtEngine().missing("cuda") == (
        f"TensorRT is not installed; PyPI has its bindings only, so type: {TENSORRT.format(11)}"
    )


@pytest.mark.parametrize(
    ("linked", "release", "fits"),
    [
        (b"libnvinfer.so.10", "10.16.1.11", True),
        (b"libnvinfer.so.10", "11.4.0.106", False),
        (b"libnvinfer.so.11", "11.4.0.106", True),
        (b"nvinfer_10.dll", "10.16.1.11", True),
    ],
)
def test_the_release_is_the_one_that_the_provider_links(site, linked, release, fits):  # noqa: F811
    install_gpu_build(site, linked)
    install_tensorrt(site, release)
    assert OrtTrtEngine().missing("cuda") == (
        None
        if fits
        else (
            "TensorRT 11.4.0.106 is installed, and the TensorrtExecutionProvider of onnxruntime-gpu 1.31.1 links "
            f"TensorRT 10 and loads with no other; type: {TENSORRT.format(11)}"
        )
    )


@pytest.mark.parametrize(
    ("linked", "package"),
    [
        (b"libcudart.so.12\0libnvinfer.so.10", "tensorrt-cu12<11"),
        (b"libcublasLt.so.13\0libcublas.so.13\0libnvinfer.so.11", "tensorrt-cu13<12"),
        (b"cublas64_12.dll\0nvinfer_10.dll", "tensorrt-cu12<11"),
        (b"cudart64_110.dll\0nvinfer_10.dll", "tensorrt-cu11<11"),
        (b"", "tensorrt-cu13<11"),
    ],
)
def test_tensorrt_is_asked_for_in_the_build_for_the_cuda_that_the_provider_links(site, linked, package):  # noqa: F811
    install_gpu_build(site, linked)
    assert OrtTrtEngine().missing("cuda") == (
        "TensorRT is not installed; PyPI has its bindings only, so type: pip install --extra-index-url "
        f"https://pypi.nvidia.com '{package}'"
    )


def test_a_provider_that_links_an_old_tensorrt_is_refused(site):  # noqa: F811
    install_gpu_build(site, b"libnvinfer.so.8\0libcudart.so.11.0")
    assert OrtTrtEngine().missing("cuda") == (
        "the TensorrtExecutionProvider of onnxruntime-gpu 1.31.1 links TensorRT 8, which is not supported; 10 and "
        "later are, so type: pip install --upgrade 'onnxruntime-gpu>=1.19'"
    )


def test_amd_needs_its_build_torch_and_the_compiler(site, monkeypatch):  # noqa: F811
    install(site, ("onnxruntime-migraphx", "1.27.1"), library="libonnxruntime_providers_migraphx.so")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.setattr(_rocm, "_INSTALLATIONS", site)
    monkeypatch.delitem(sys.modules, "torch")
    assert OrtMigraphxEngine().missing("rocm") == (
        "package 'torch' is not installed, and PyPI's is not for AMD GPUs; "
        "install the one for your ROCm version: https://pytorch.org/get-started/locally/"
    )
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert OrtMigraphxEngine().missing("rocm") == (
        "the MIGraphXExecutionProvider loads libmigraphx_c, which is not on this machine; install ROCm "
        "(onnxruntime-migraphx 1.27 is built for 7.2) and type: sudo apt install migraphx"
    )
    (site / "rocm-7.2.4" / "lib").mkdir(parents=True)
    (site / "rocm-7.2.4" / "lib" / "libmigraphx_c.so.3").touch()
    assert OrtMigraphxEngine().missing("rocm") is None
    assert OrtRocmEngine().missing("rocm") == (
        "onnxruntime-migraphx 1.27.1 has no ROCMExecutionProvider, and a second build of onnxruntime beside it would "
        "overwrite its files; type: pip uninstall --yes onnxruntime-migraphx && pip install 'onnxruntime-rocm<1.23'"
    )


@pytest.mark.parametrize("kind", ["cpu", "cuda", "rocm"])
def test_every_engine_that_is_missing_is_skipped_with_its_reason_where_all_were_asked_for(kind):
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    asked = Selection(
        engines=parse_engines("all", catalog, {}, device_kind=kind), components=("unet",), optimizations=("fp16",)
    )
    choices = Selector(asked, catalog, {}, kind).choose(Axes.ENGINE, Marks())
    engines = {choice.case.engine: choice.skip for choice in choices}
    assert engines == {
        name: engine.missing(kind) or ""
        for name, engine in catalog.engines.items().items()
        if kind in engine.device_kinds
    }
    assert [name for name, reason in engines.items() if not reason] == [
        name for name in engines if name in ("torch", "torch-compile", "ort-cpu")
    ]
