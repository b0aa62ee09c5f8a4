"""Cases that disagree, each wrong in another way: what is said of where, and files that show it."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import onnx_ir as ir
import pytest
import safetensors.numpy
import torch
import transformers
from approximate_gelu import make_catalog

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.onnx_folder import OnnxFolder
from pytest_sdperf.cases.registration import registrar_of
from pytest_sdperf.checks.agreement.check import agree
from pytest_sdperf.checks.agreement.locations import sentence
from pytest_sdperf.checks.locate.locate import locate
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.scenes import IMAGE_SIZE
from pytest_sdperf.core.settings import EngineRequest, Selection, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.devices.cpu import CpuProbe
from pytest_sdperf.faults import builtins, known
from pytest_sdperf.models.shapes import SHAPES

pytestmark = pytest.mark.slow

TRAINED = SHAPES.trained
TEXT = Case(
    "shapes", "text_encoder", "ort-cpu", "fp32", fuser="native", exporter="dynamo", opset=18, shapes="static",
    weights="folder-0123", height=IMAGE_SIZE, width=IMAGE_SIZE,
)  # fmt: skip
PLACE = r"relative L2 error \S+, and at most \S+ passes there\. "
SECTION = r"(It is the first place with a counterpart after \d+ nodes? without one.*?: .+?\. )?"
AGREES = r"What it reads agrees: \S+( \d)?, the nearest to its limit, has an error \S+ of at most \S+\. "
LAST = r"The last value before it that agrees is that of .+?\. "
WRONG_GRAPH = r"By its definition it gives something else than the reference: the graph is wrong, whatever runs it\. "
WRONG_EXPORT = (
    r"By its definition it gives something else than the module of torch: the export is wrong, whatever runs it\. "
)
EXPORTED = (
    r"The exported graph is wrong before anything is optimized: its last_hidden_state has an error \S+, and at most "
    r"\S+ passes\. "
)
REAL = (
    r"Files with the weights of the case show this fault, and these are not given away unasked: type "
    r"-o sdperf_repro_weights=real\."
)
GONE = (
    r"With {} inner values as outputs the graph computes the right thing: what ONNX Runtime rewrites when it loads the "
    r"graph, and cannot while somebody reads these values, is to blame\. "
)
VANISHED = GONE.format("2 of its") + r"With approximate:graph_optimizations=off it agrees\."
BETWEEN = (
    rf"The unet goes wrong at Add /behind/Add of behind: {PLACE}{SECTION}{AGREES}Its definition gives something else "
    rf"for what it read: the engine computes it wrong\. {LAST}{GONE.format('its 8')}With approximate:"
    rf"graph_optimizations=off it agrees\. What follows was seen with fewer of them\. Reproduce it \(random "
    rf"weights\): .+"
)
# A torch that has a bug, as an interpreter sees it that has this among its packages.
BUG = """
import importlib.abc, importlib.machinery, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch.nn.functional":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_break(module):
            execute(module)
            right = module.scaled_dot_product_attention
            module.scaled_dot_product_attention = lambda *given, **named: 1.01 * right(*given, **named)

        spec.loader.exec_module = execute_and_break
        return spec

sys.meta_path.insert(0, Finder())
"""


class EnginesOutside(CaseRunner):
    """Runs in its own process what has an interpreter of its own, and everything else in this one."""

    def task(self, function, request, answer, **more):
        inside = dataclasses.replace(self.context.settings, in_process=self.request.python is None)
        bench = dataclasses.replace(self.context, settings=inside)
        return CaseRunner(self.case, self.request, bench, self.altered).task(function, request, answer, **more)


class InEveryBuild(Builder):
    """Plants one fault into whatever it builds, as a library does that writes every export."""

    def build(self, case, component, altered="", **how):
        return super().build(case, component, altered="numerics-slope-of-quick-gelu", **how)


@pytest.fixture
def disagree(suites_folder, tmp_path, monkeypatch):
    """Execute a case inside this process, compare it, and return what is said below the sentence of the disagreement.

    Every import of torch takes seconds, and each of a dozen workers would have its own.
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)  # for those that build

    def run(
        case: Case,
        *,
        plant: str = "",
        in_every_build: bool = False,
        real: bool = False,
        python: Path | None = None,
        **selected: Any,
    ) -> str:
        cache, selection = suites_folder / "cache", Selection(**selected)
        settings = Settings(
            selection=selection, cache_dir=cache, state_dir=tmp_path, in_process=True, real_weights=real,
            repro_dir=tmp_path / "files",
        )  # fmt: skip
        inside = case.exporter in ("", "torchscript")  # the other exporter warns of much
        building = dataclasses.replace(settings, in_process=inside)
        catalog, kept = make_catalog(), Cache(cache, size_bytes=settings.cache_size_bytes)
        with catalog.owned_by(registrar_of(builtins)):
            builtins.pytest_sdperf_register(catalog)
        folders: dict[str, OnnxFolder | None] = {
            "folder": OnnxFolder(selection.onnx_dir) if selection.onnx_dir else None,
            "reference": OnnxFolder(selection.onnx_reference) if selection.onnx_reference else None,
        }
        kind = InEveryBuild if in_every_build else Builder
        builder = kind(catalog, building, kept, say=print, **folders)
        bench = RunContext(
            settings=settings,
            catalog=catalog,
            device=Device("cpu", "a CPU", "cpu"),
            probe=CpuProbe(),
            builder=builder,
            cache=kept,
            folder=tmp_path,
            say=print,
        )
        runner = EnginesOutside(case, EngineRequest(case.engine, case.engine, python=python), bench, plant)
        found = agree(runner)
        assert not all(one.passed for one in found)
        return sentence(locate(runner, found, settings=settings))

    return run


def reproduce(told: str, folder: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Do what a reader does with the command at the end; return what it says, and the folder of the files."""
    command = shlex.split(told.rpartition(" weights): ")[2])
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False), Path(command[1]).parent


@pytest.fixture
def given(suites_folder, tmp_path):
    """Put a graph of the text encoder into a folder as somebody else would, with something changed."""
    cache = suites_folder / "cache"
    settings = Settings(cache_dir=cache)
    builder = Builder(make_catalog(), settings, Cache(cache, size_bytes=settings.cache_size_bytes), say=print)

    def write(name: str, optimization: str, change: Callable[[ir.Graph], None]) -> Path:
        graph = builder.build(dataclasses.replace(TEXT, optimization=optimization), TEXT.component)
        model, folder = ir.load(graph.path), tmp_path / name
        change(model.graph)
        (folder / "text_encoder").mkdir(parents=True)
        ir.save(model, folder / "text_encoder/model.onnx", external_data="model.onnx.data")
        return folder

    return write


def one_percent_larger(graph: ir.Graph) -> None:
    """The scale of one norm."""
    value = next(value for name, value in graph.initializers.items() if "layers.1.layer_norm2.weight" in name)
    assert value.const_value is not None
    value.const_value = ir.tensor(value.const_value.numpy() * np.float32(1.01), name=value.name)


def without_mask(graph: ir.Graph) -> None:
    """The first attention."""
    node = next(node for node in graph if node.op_type == "MultiHeadAttention")
    assert node.attributes.pop("unidirectional")


def test_a_wrong_graph_is_shown_with_random_weights(type_in, tmp_path):
    command = known.get("graph-causal-mask-lost").command
    result = type_in(command, "-osdperf_locate=on", f"-osdperf_repro={tmp_path / 'files'}")
    assert result.ret == 1
    told = next(line.strip() for line in result.outlines if " goes wrong at " in line)
    found = re.fullmatch(
        rf"The graph of the text_encoder goes wrong at com\.microsoft::MultiHeadAttention \S+ of (\S+): {PLACE}"
        rf"{AGREES}{WRONG_GRAPH}{LAST}Reproduce it \(random weights\): .+",
        told,
    )
    assert found is not None
    assert found[1].endswith("self_attn")
    done, _ = reproduce(told, tmp_path)
    assert re.fullmatch(r"onnxruntime \S+ CPUExecutionProvider: error \S+, limit \S+\n", done.stdout)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_a_whole_request_names_the_component_and_its_call(disagree, tmp_path):
    case = dataclasses.replace(
        TEXT, model="few-layers", component="pipeline", exporter="torchscript", weights="", steps=1, scheduler="ddim"
    )
    told = disagree(case, plant="weights-norms-reset", real=True)
    assert re.fullmatch(
        rf"The graph of the text_encoder goes wrong at LayerNormalization \S+ of text_encoder\.encoder\.layers\.0\."
        rf"layer_norm1, in call 2 of the text_encoder: {PLACE}{AGREES}{WRONG_GRAPH}{LAST}At least \d+ other nodes "
        rf"further on are wrong too\. Reproduce it \(real weights\): .+",
        told,
    )
    assert reproduce(told, tmp_path)[0].returncode == 1


@pytest.mark.filterwarnings("ignore")  # of exporters
def test_what_an_exporter_makes_wrong_is_shown_with_random_weights(disagree, tmp_path):
    """It is in every export, as if torch's exporter wrote it."""
    told = disagree(TEXT, plant="numerics-slope-of-quick-gelu", in_every_build=True)
    assert re.fullmatch(
        rf"The exported graph of the text_encoder goes wrong at Mul \S+ of text_encoder\.encoder\.layers\.0\.mlp"
        rf"\.activation_fn: {PLACE}{SECTION}{AGREES}{WRONG_EXPORT}{LAST}At least \d+ other nodes further on are "
        rf"wrong too\. {EXPORTED}Reproduce it \(random weights\): .+",
        told,
    )
    assert reproduce(told, tmp_path)[0].returncode == 1


def test_an_export_that_is_wrong_itself(disagree, given):
    folder = given("wrong", "fp32", one_percent_larger)
    assert re.fullmatch(
        rf"The exported graph of the text_encoder goes wrong at LayerNormalization \S+ of "
        rf"text_encoder\.encoder\.layers\.1\.layer_norm2: {PLACE}{SECTION}{AGREES}{WRONG_EXPORT}{LAST}{EXPORTED}{REAL}",
        disagree(dataclasses.replace(TEXT, exporter="external"), onnx_dir=folder, weights=str(TRAINED)),
    )


def test_a_graph_that_somebody_fused_wrong(disagree, given, tmp_path):
    """There are no torch weights: it is compared with a float32 export of the same pipeline."""
    right, wrong = given("right", "fp32", lambda graph: None), given("wrong", "fmha", without_mask)
    case = dataclasses.replace(TEXT, exporter="external", optimization="as-is")
    told = disagree(case, onnx_dir=wrong, onnx_reference=right, real=True)
    assert re.fullmatch(
        rf"The graph of the text_encoder goes wrong at com\.microsoft::MultiHeadAttention \S+ of "
        rf"text_encoder\.encoder\.layers\.0\.self_attn: {PLACE}{AGREES}{WRONG_GRAPH}{LAST}"
        rf"Reproduce it \(real weights\): .+",
        told,
    )
    assert reproduce(told, tmp_path)[0].returncode == 1


@pytest.mark.parametrize(("model", "told"), [("gelu-between", BETWEEN), ("gelu-hit", VANISHED)])
def test_what_onnxruntime_rewrites_vanishes_where_somebody_reads_in_between(disagree, model, told):
    case = Case(
        model, "unet", "approximate", "fp32", fuser="native", exporter="torchscript", opset=18, shapes="static",
        height=128, width=128,
    )  # fmt: skip
    assert re.fullmatch(told, disagree(case))


@pytest.fixture
def torch_with_a_bug(tmp_path):
    """An interpreter in whose torch attention gives one percent too much."""
    venv.EnvBuilder(symlinks=True).create(tmp_path / "buggy")
    (packages,) = (tmp_path / "buggy").glob("lib/python*/site-packages")
    (packages / "bug.py").write_text(BUG)
    places = dict.fromkeys(str(Path(one.__file__).parents[1]) for one in (torch, np, diffusers, transformers))
    (packages / "bug.pth").write_text("\n".join([*places, "import bug", ""]))
    return tmp_path / "buggy/bin/python"


def test_a_module_of_torch_is_cut_out(disagree, torch_with_a_bug, tmp_path):
    case = Case("shapes", "text_encoder", "torch", "fp32", weights="folder-0123", height=IMAGE_SIZE, width=IMAGE_SIZE)
    told = disagree(case, python=torch_with_a_bug)
    assert re.fullmatch(
        rf"The text_encoder goes wrong at text_encoder\.encoder\.layers\.0\.self_attn: {PLACE}{AGREES}{LAST}"
        rf"Reproduce it \(random weights\): {re.escape(str(torch_with_a_bug))} .+",
        told,
    )
    done, folder = reproduce(told, tmp_path)
    assert re.fullmatch(r"torch \S+, transformers \S+ cpu: error 1\.00e-02, limit \S+\n", done.stdout)
    assert done.returncode == 1
    healthy = subprocess.run([sys.executable, folder / "reproduce.py"], capture_output=True, text=True, check=False)
    assert (healthy.returncode, healthy.stderr) == (0, "")
    stored = safetensors.numpy.load_file(TRAINED / "text_encoder/model.safetensors")
    for name, array in safetensors.numpy.load_file(folder / "weights.safetensors").items():
        real = next(value for key, value in stored.items() if key.endswith(f"layers.0.self_attn.{name}"))
        assert array.shape == real.shape
        assert abs(np.corrcoef(array.reshape(-1), real.reshape(-1))[0, 1]) < 0.5
