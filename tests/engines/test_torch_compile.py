"""What Inductor did, counted in the process and between two processes that share its cache."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.values import TensorSpec
from pytest_sdperf.engines.torch_compile import MODES, WITH_CUDA_GRAPHS, TorchCompileEngine
from pytest_sdperf.testing import SMALL, check_engine
from pytest_sdperf.testing.probe_model import ProbeModel

# Importing Inductor uses what torch itself calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

NONE = {"graphs": 0, "graph_breaks": 0, "recompiles": 0, "cudagraph_skips": 0, "reasons": []}


def request_in(folder, model=None, **options):
    model = model or ProbeModel()
    (folder / "work").mkdir(exist_ok=True)
    return LoadRequest(
        build=model.build("module", folder),
        model=model,
        component="unet",
        workload=SMALL,
        device_kind="cpu",
        device_index=0,
        options=TorchCompileEngine().all_options(options),
        work_dir=folder / "work",
    )


def call(runner, times=1):
    runner.bind(ProbeModel().example("unet", SMALL))
    for _ in range(times):
        runner.run()
        runner.synchronize()


def test_the_engine_keeps_its_contract(tmp_path):
    check_engine(TorchCompileEngine(), folder=tmp_path)


def test_one_graph_is_compiled_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    request = request_in(tmp_path)
    with TorchCompileEngine().load(request) as runner:
        assert runner.facts()["compile"] == NONE
        assert runner.facts()["compile_cache"] == "cold"
        for phase in ("first_run", "second_run", "warmup", "timed"):
            runner.enter(phase)
            call(runner)
            runner.leave(phase)
        facts = runner.facts()
    assert facts["compile"] == NONE | {"graphs": 1}
    assert "cuda_graph" not in facts
    assert (request.work_dir / "inductor").is_dir()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/elsewhere"


def test_a_compiler_that_is_switched_off_made_no_graph(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    with TorchCompileEngine().load(request_in(tmp_path)) as runner:
        call(runner, times=2)
        assert runner.facts()["compile"] == NONE


@dataclasses.dataclass
class Restless(ProbeModel):
    """A model that looks different to the compiler from its third call on."""

    def module(self, *arguments, **keywords):
        probe = super().module(*arguments, **keywords)

        class Counting(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.probe, self.calls = probe, 0

            def forward(self, sample, timestep):
                return (self.probe(sample, timestep)[0] * (2 if self.calls > 1 else 1),)

        return Counting()


def test_what_is_compiled_in_the_timed_region_is_counted_apart(tmp_path):
    with TorchCompileEngine().load(request_in(tmp_path, Restless())) as runner:
        call(runner, 2)
        runner.enter("timed")
        call(runner)
        runner._module._orig_mod.calls = 2
        call(runner, 2)
        runner.leave("timed")
        assert runner.facts()["compile"] == NONE | {"graphs": 2, "recompiles": 1}


def test_what_is_compiled_outside_the_timed_region_is_no_recompilation_in_it(tmp_path):
    with TorchCompileEngine().load(request_in(tmp_path, Restless())) as runner:
        call(runner)
        runner.enter("timed")
        call(runner)
        runner.leave("timed")
        runner._module._orig_mod.calls = 2
        call(runner)
        assert runner.facts()["compile"] == NONE | {"graphs": 2}


class Broken(ProbeModel):
    """A model with a graph break."""

    def module(self, *arguments, **keywords):
        probe = super().module(*arguments, **keywords)

        class Breaking(torch.nn.Module):
            def forward(self, sample, timestep):
                (out,) = probe(sample, timestep)
                torch._dynamo.graph_break()
                return (out + 1,)

        return Breaking()


def test_graph_breaks_are_counted_with_their_reasons_or_refused(tmp_path):
    with TorchCompileEngine().load(request_in(tmp_path, Broken(), fullgraph="off")) as runner:
        call(runner, 2)
        facts = runner.facts()["compile"]
    assert (facts["graphs"], facts["graph_breaks"], facts["recompiles"]) == (2, 1, 0)
    (reason,) = facts["reasons"]
    assert "graph_break()" in reason
    assert "\n" not in reason
    with TorchCompileEngine().load(request_in(tmp_path, Broken())) as runner, pytest.raises(Exception, match="graph_b"):
        call(runner)


def test_a_graph_that_is_no_cuda_graph_after_all_is_counted(tmp_path):
    # Inductor does without on a CPU, as for a graph on a GPU that cannot be one; there it says why, too.
    with TorchCompileEngine().load(request_in(tmp_path, mode="reduce-overhead")) as runner:
        call(runner, 3)
        facts = runner.facts()
    assert facts["compile"] == NONE | {"graphs": 1, "cudagraph_skips": 1}
    assert facts["cuda_graph"] == {"requested": True, "replayed": False, "changed_inputs": None}


def test_why_a_graph_is_no_cuda_graph_is_told(tmp_path):
    from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter

    def skipping(sample, timestep):
        log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to mutated inputs (1 instances)")
        return (sample,)

    with TorchCompileEngine().load(request_in(tmp_path)) as runner:
        runner._module = skipping
        call(runner, 2)
        facts = runner.facts()
    assert facts["compile"] == NONE | {
        "cudagraph_skips": 2,
        "reasons": ["skipping cudagraphs due to mutated inputs (1 instances)"],
    }


def test_counts_of_one_component_leave_out_those_of_another(tmp_path):
    (tmp_path / "other").mkdir()
    with (
        TorchCompileEngine().load(request_in(tmp_path)) as one,
        TorchCompileEngine().load(request_in(tmp_path / "other", Restless())) as other,
    ):
        call(one)
        call(other)
        other._module._orig_mod.calls = 2
        call(other)
        call(one)
        assert (one.facts()["compile"]["graphs"], other.facts()["compile"]["graphs"]) == (1, 2)


IN_A_PROCESS = """
import json, sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
from test_torch_compile import TorchCompileEngine, call, request_in
with TorchCompileEngine().load(request_in(Path(sys.argv[1]))) as runner:
    call(runner, 2)
    print(json.dumps(runner.facts()["compile_cache"]))
"""


@pytest.mark.slow
def test_the_first_process_of_a_case_compiles_and_the_second_finds_it(tmp_path):
    script = IN_A_PROCESS.format(tests=str(Path(__file__).parent))
    folders, found = [tmp_path / "first", tmp_path / "second"], []
    for folder in folders:
        folder.mkdir()
        if found:  # as every process of a case gets it
            shutil.copytree(folders[0] / "work", folder / "work", copy_function=os.symlink)
        done = subprocess.run(
            [sys.executable, "-c", script, str(folder)], check=True, capture_output=True, text=True, timeout=300
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert found == ["cold", "warm"]
    # Nothing was compiled again: all that it reads is what the first one left.
    assert not [path for path in (folders[1] / "work").rglob("*.so") if not path.is_symlink()]


@pytest.mark.parametrize(
    ("mode", "instead"), [("reduce-overhead", "default"), ("max-autotune", "max-autotune-no-cudagraphs")]
)
def test_cuda_graphs_are_refused_on_a_cpu(mode, instead):
    engine = TorchCompileEngine()
    options = engine.all_options({"mode": mode})
    assert engine.refuses_options(options, "cpu") == (
        f"mode={mode} makes CUDA graphs, which a CPU has not; type torch-compile:mode={instead}"
    )
    assert engine.refuses_options(options, "cuda") is None
    assert engine.refuses_options(engine.all_options({}), "cpu") is None


def test_the_modes_are_those_of_torch_and_do_what_is_said_of_them():
    from torch._inductor import list_mode_options

    known = list_mode_options()
    assert set(MODES) <= set(known)
    assert {mode for mode in MODES if known[mode].get("triton.cudagraphs")} == set(WITH_CUDA_GRAPHS)
    for mode, without in WITH_CUDA_GRAPHS.items():
        assert known[without] == {name: value for name, value in known[mode].items() if name != "triton.cudagraphs"}


def test_the_version_of_triton_is_told_where_it_is(monkeypatch):
    import importlib.metadata

    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.8.0" if name == "triton" else version(name))
    assert TorchCompileEngine().versions()["triton"] == "3.8.0"


@dataclasses.dataclass
class Sides(ProbeModel):
    """`out_sample = 2 * sample`, with two sides that are open."""

    def inputs(self, component, workload):
        return (TensorSpec("sample", "float", (workload.height // 8, workload.width // 8)),)

    def outputs(self, component, workload):
        return (TensorSpec("out_sample", "float", (workload.height // 8, workload.width // 8)),)

    def example(self, component, workload, *, seed=0):
        (spec,) = self.inputs(component, workload)
        return {"sample": np.random.default_rng(seed).standard_normal(spec.shape).astype(np.float32)}

    def module(self, *arguments, **keywords):
        class Twice(torch.nn.Module):
            def forward(self, sample):
                return (2 * sample,)

        return Twice()


@pytest.mark.parametrize(("dynamic", "graphs"), [("on", 1), ("auto", 2)])
def test_one_graph_with_open_shapes_serves_every_size(tmp_path, dynamic, graphs):
    model = Sides()
    with TorchCompileEngine().load(request_in(tmp_path, model, dynamic=dynamic)) as runner:
        # Square first, as most users draw: torch takes equal sides for one, and compiles again where they differ.
        for width in (64, 96, 160, 64):
            size = dataclasses.replace(SMALL, width=width)
            inputs = model.example("unet", size)
            runner.resize(size)
            runner.bind(inputs)
            runner.run()
            assert np.array_equal(runner.fetch()["out_sample"], 2 * inputs["sample"])
        assert runner.facts()["compile"] == NONE | {"graphs": graphs}
