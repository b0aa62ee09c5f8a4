"""What is said where a search ends without a place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sample_values import case

from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.checks.locate import graphs, inside, locate, rewriting
from pytest_sdperf.checks.locate.target import SearchTarget
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.machine import host_memory
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import Build
from pytest_sdperf.core.values.located import Located, Location
from pytest_sdperf.core.values.recipe import SessionRecipe
from pytest_sdperf.tasks.trace import Reveal


def found_of(runner, settings=None):
    return locate.locate(runner, [], settings=settings or Settings())


def test_a_search_that_fails_leaves_the_verdict_alone(monkeypatch):
    def crash(runner, found, **others):
        raise WorkerError("the worker was killed by SIGKILL\nand more", reason="signal", tail="")

    monkeypatch.setattr(locate, "_locate", crash)
    runner = SimpleNamespace(case=case(component="vae_decoder"))
    assert found_of(runner) == Located(
        "vae_decoder", "hidden", told="Looking inside failed: the worker was killed by SIGKILL"
    )


def test_a_pipeline_of_ones_own_is_not_looked_into():
    runner = ExternalPipelineRunner.__new__(ExternalPipelineRunner)
    object.__setattr__(runner, "case", case(component="pipeline"))
    assert found_of(runner).told == (
        "A pipeline of your own is not looked into, and no files are made: what your code did to its parts cannot be "
        "written down. Name its parts to find out more: --sdperf-model=NAME with --sdperf-weights=FOLDER builds the "
        "same components from the same weights."
    )


def test_where_every_component_agrees_the_fault_lies_between_them(monkeypatch):
    monkeypatch.setattr(locate, "_questions", lambda runner, found: ["text_encoder", "unet"])
    monkeypatch.setattr(locate, "_agrees", lambda target: True)
    runner = SimpleNamespace(case=case(component="pipeline"), is_pipeline=True)
    assert found_of(runner) == Located(
        "pipeline",
        "spread",
        told="Given what it was given in this request, each component agrees with its reference: what went wrong lies "
        "between them, or adds up over the steps.",
    )


@pytest.mark.parametrize("free", [None, 8 * 2**30])
def test_what_fits_into_memory_is_looked_at(monkeypatch, tmp_path, free):
    values = tmp_path / "outputs.npz"
    values.write_bytes(b"x" * 1024)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: free)
    assert graphs._too_large(values, case()) == ""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"width": 512, "height": 512},
            "Look at a smaller picture, --sdperf-resolution=256x256, or where more is free.",
        ),
        (
            {"width": 640, "height": 448},
            "Look at a smaller picture, --sdperf-resolution=320x192, or where more is free.",
        ),
        ({"width": 128, "height": 64}, "Look at it where more is free."),
        ({"component": "text_encoder", "width": 512, "height": 512}, "Look at it where more is free."),
    ],
)
def test_what_does_not_fit_into_memory_is_said(monkeypatch, changes, told):
    values = SimpleNamespace(stat=lambda: SimpleNamespace(st_size=3 * 2**30))
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 16 * 2**30)
    assert graphs._too_large(values, case(**changes)) == (
        f"Looking inside would take about 24 GiB of memory, and 16 GiB are free. {told}"
    )


def test_what_is_looked_into_is_another_build_for_those_that_compile():
    build = Build("fuse-native-0123", "onnx", Path("model.onnx"), "float32")
    asked = [Reveal(build.path, share) for share in (1, 8, 8)] + [Reveal(build.path, names=("value",))]
    probes = [inside._probe(build, Path("inside.onnx"), one) for one in asked]
    assert len({build.key, *(one.key for one in probes)}) == 4
    assert probes[1] == probes[2]
    assert {(one.path, one.dtype) for one in probes} == {(Path("inside.onnx"), "float32")}


SEEN = "With its 8 inner values as outputs the graph computes the right thing"
OFF = "ort-cpu:graph_optimizations=off"
EXACT = np.linspace(1, 2, 64).reshape(8, 8)


class Engine:
    """Gives one answer after the other, and another where nothing is rewritten; what is far is a share of its size."""

    def __init__(self, *away: float, off: float = 0.0, options: dict[str, str] | None = None) -> None:
        self.away, self.off, self.asked = [*away], off, []
        own = {"graph_optimizations": "..."} if options is None else options
        self.engine, self.context = SimpleNamespace(options=own), None
        self.request = EngineRequest("ort-cpu", "ort-cpu")
        self.case = case()

    def run(self, inputs):
        self.asked.append("as it is")
        return {"y": EXACT * (1 + self.away.pop(0))}

    def without(self, runner):
        assert runner is self
        return SimpleNamespace(run=lambda inputs: {"y": EXACT * (1 + self.off)})


def told_of(engine: Engine, tmp_path, monkeypatch, *, by_torch: bool = True) -> str:
    """What is said where torch in float16 is 1e-3 away, so that at most 2e-3 passes."""
    exact, rough = {"y": EXACT}, {"y": EXACT * (1 + 1e-3)}
    files = {"float32": tmp_path / "exact.npz", "float16": tmp_path / "rough.npz"}
    for file, arrays in zip(files.values(), (exact, rough), strict=True):
        np.savez(file, **arrays)
    monkeypatch.setattr(rewriting, "_without", engine.without)
    monkeypatch.setattr(rewriting.float32_graph, "answers_to", lambda *asked: (exact, rough))
    target = SearchTarget(engine, {})  # type: ignore[arg-type]  # all that is read of a runner
    return rewriting.told(target, files if by_torch else {}, "float16", values=8, share=1)


@pytest.mark.parametrize("by_torch", [True, False])
@pytest.mark.parametrize(
    ("off", "result"), [(1e-3, "it agrees"), (2.5e-3, "the error is 2.50e-03, instead of 1.16e-01")]
)
def test_onnxruntime_is_blamed_where_the_fault_goes_with_its_rewriting(tmp_path, monkeypatch, by_torch, off, result):
    told = told_of(Engine(0.116, 0.116, 0.116, off=off), tmp_path, monkeypatch, by_torch=by_torch)
    assert told == (
        f"{SEEN}: what ONNX Runtime rewrites when it loads the graph, and cannot while somebody reads these values, is "
        f"to blame. With {OFF} {result}."
    )


@pytest.mark.parametrize("by_torch", [True, False])
@pytest.mark.parametrize(("off", "error"), [(2.34e-3, "2.34e-03"), (2.1e-3, "2.10e-03")])
def test_onnxruntime_is_not_blamed_where_the_fault_stays(tmp_path, monkeypatch, by_torch, off, error):
    told = told_of(Engine(2.32e-3, 2.32e-3, 2.32e-3, off=off), tmp_path, monkeypatch, by_torch=by_torch)
    assert told == (
        f"{SEEN}. What ONNX Runtime rewrites when it loads the graph is not to blame: with {OFF} the error is {error}, "
        f"and 2.32e-03 with the case's own settings. Where it goes wrong could not be told."
    )


@pytest.mark.parametrize("away", [(1e-3, 0.1, 0.1), (0.1, 0.1, 1e-3), (0.1, 1e-3, 0.1)])
def test_nobody_is_blamed_where_equal_calls_have_different_answers(tmp_path, monkeypatch, away):
    assert told_of(Engine(*away), tmp_path, monkeypatch) == (
        f"{SEEN}, and so it did in 1 of 3 further processes without: equal calls have different answers, chosen anew "
        f"in each process, and what ONNX Runtime rewrites is not blamed."
    )


def test_an_engine_that_cannot_leave_a_graph_as_it_is(tmp_path, monkeypatch):
    assert told_of(Engine(0.1, 0.1, 0.1, options={}), tmp_path, monkeypatch) == (
        f"{SEEN}. What the engine makes of the graph where nobody reads them is to blame; it has no option "
        f"graph_optimizations that could show it."
    )


def test_an_export_may_be_wrong_itself():
    location = Location("view_3", "node_view_3", "::Reshape", "unet.conv_in", 0.5, 1e-3)
    assert graphs._wrong_export(location) == (
        "The exported graph is wrong before anything is optimized: its view_3 has an error 5.00e-01, and at most "
        "1.00e-03 passes."
    )


def test_free_memory_is_told_in_bytes():
    free = host_memory.available_bytes()
    assert free is None or 2**20 < free < 2**50


def test_a_second_look_that_fails_leaves_what_was_found(monkeypatch):
    said = []
    runner = SimpleNamespace(context=SimpleNamespace(say=said.append))

    def fail(target, found, recipe, *, dtype):
        raise WorkerError("the worker was killed by SIGKILL\nand more", reason="signal", tail="")

    monkeypatch.setattr(graphs, "_redrawn", fail)
    found = Located("unet", "graph")
    assert graphs._with_random_weights(SearchTarget(runner, {}), found, {}, dtype="float16") == []
    assert said == ["looking again with random weights failed: the worker was killed by SIGKILL"]


@pytest.mark.parametrize("kind", ["engine", "spread", "vanished", "hidden", "plain", "export"])
def test_only_a_wrong_graph_is_made_again(kind):
    """A graph that somebody gave is no export that could be repeated."""
    runner, known = SimpleNamespace(case=case(exporter="external")), SessionRecipe((), "", {})
    assert graphs._redrawn(SearchTarget(runner, {}), Located("unet", kind), known, dtype="float16") == []


def test_nothing_is_made_again_where_nobody_knows_how_to_run_it():
    assert graphs._redrawn(SearchTarget(None, {}), Located("unet", "graph"), None, dtype="float16") == []
