"""Whole runs that disagree, each wrong in another way: what is said of where, and files that show it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import diffusers
import numpy as np
import onnx_ir as ir
import pytest
import safetensors.numpy
import torch
import transformers

from pytest_sdperf import builtins, shapes
from pytest_sdperf.building.builder import Builder
from pytest_sdperf.building.cache import Cache
from pytest_sdperf.catalog import Catalog, Registrar
from pytest_sdperf.faults import known
from pytest_sdperf.settings import Settings
from pytest_sdperf.shapes.scenes import IMAGE_SIZE
from pytest_sdperf.values import Workload

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TRAINED = Path(shapes.__file__).parent / "trained"
TEXT = "--model=shapes --engine=ort-cpu --component=text_encoder"
PLACE = r"relative L2 error \S+, and at most \S+ passes there\. "
SECTION = r"(It is the first place with a counterpart after \d+ nodes? without one: .+?\. )?"
AGREES = r"What it reads agrees: \S+( \d)?, the nearest to its limit, has an error \S+ of at most \S+\. "
LAST = r"The last value before it that agrees is that of .+?\. "
WRONG_GRAPH = r"By its definition it gives something else than the reference: the graph is wrong, whatever runs it\. "
REAL = (
    r"Files with the weights of the case show this fault, and these are not given away unasked: type "
    r"--sdperf-repro-weights=real\."
)
GONE = (
    r"With {} inner values as outputs the graph computes the right thing: what ONNX Runtime rewrites when it loads the "
    r"graph, and cannot while somebody reads these values, is to blame\. "
)
VANISHED = GONE.format("2 of its") + r"With approximate:graph_optimizations=off it agrees\."
BETWEEN = (
    rf"The unet goes wrong at Add /behind/Add of behind: {PLACE}{SECTION}{AGREES}Its definition gives something else for "
    rf"what it read: the engine computes it wrong\. {LAST}{GONE.format('its 8')}What follows was seen with fewer of them\. "
    rf"Reproduce it \(random weights\): .+"
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


@pytest.fixture
def search(type_in, tmp_path):
    """Type a command that disagrees; return what is said below the sentence of the disagreement."""

    def run(command: str, *more: str) -> str:
        result = type_in(command, "--sdperf-locate=on", f"--sdperf-repro={tmp_path / 'files'}", *more)
        assert result.ret == 1
        return next(line for line in result.outlines if re.match(r"(The .+ goes wrong at |With )", line))

    return run


def reproduce(told: str, folder: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Do what a reader does with the command at the end; return what it says, and the folder of the files."""
    command = shlex.split(told.rpartition(" weights): ")[2])
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False), Path(command[1]).parent


@pytest.fixture
def given(suites_folder, tmp_path):
    """Put a graph of the text encoder into a folder as somebody else would, with something changed."""
    catalog, cache = Catalog(), suites_folder / "cache"
    with catalog.owned_by(Registrar(builtins.__name__, Path(builtins.__file__).parents[1])):
        builtins.pytest_sdperf_register(catalog)
    settings = Settings(cache_dir=cache)
    builder = Builder(catalog, settings, Cache(cache, size_bytes=settings.cache_size_bytes), say=print)

    def write(name: str, rung: str, change: Callable[[ir.Graph], None]) -> Path:
        graph = builder.build(
            "shapes", "text_encoder", optimization=rung, fuser="native", exporter="dynamo", opset=18, shapes="static",
            workload=Workload(1, IMAGE_SIZE, IMAGE_SIZE, 0, ""), consumes="onnx",
        )  # fmt: skip
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


def test_a_wrong_graph_is_shown_with_random_weights(search, tmp_path):
    told = search(known.get("graph-causal-mask-lost").command)
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


def test_a_whole_request_names_the_component_and_its_call(search, tmp_path):
    fault = known.get("weights-norms-reset")
    command = f"{fault.command} --steps=1".replace("--component=text_encoder", "--component=pipeline")
    told = search(command, "--sdperf-repro-weights=real")
    found = re.fullmatch(
        rf"The graph of the text_encoder goes wrong at LayerNormalization \S+ of (\S+), in call 2 of the text_encoder: "
        rf"{PLACE}{SECTION}{AGREES}{WRONG_GRAPH}({LAST})?At least \d+ other nodes? further on (is|are) wrong too\. "
        rf"Reproduce it \(real weights\): .+",
        told,
    )
    assert found is not None
    assert found[1].endswith("layers.0.layer_norm1")
    assert reproduce(told, tmp_path)[0].returncode == 1


def test_an_export_that_is_wrong_itself(search, given):
    folder = given("wrong", "fp32", one_percent_larger)
    told = search(f"pytest suites/test_agreement.py {TEXT} --optimization=fp32 --onnx-dir={folder} --weights={TRAINED}")
    assert re.fullmatch(
        rf"The exported graph of the text_encoder goes wrong at LayerNormalization \S+ of "
        rf"text_encoder\.encoder\.layers\.1\.layer_norm2: {PLACE}{SECTION}{AGREES}By its definition it gives something "
        rf"else than the module of torch: the export is wrong, whatever runs it\. {LAST}The exported graph is wrong "
        rf"before anything is optimized: its last_hidden_state has an error \S+, and at most \S+ passes\. {REAL}",
        told,
    )


def test_a_graph_that_somebody_fused_wrong(search, given, tmp_path):
    """There are no torch weights: it is compared with a float32 export of the same pipeline."""
    right, wrong = given("right", "fp32", lambda graph: None), given("wrong", "bias-add", without_mask)
    command = f"pytest suites/test_agreement.py {TEXT} --optimization=as-is --onnx-dir={wrong} --onnx-reference={right}"
    at = (
        rf"The graph of the text_encoder goes wrong at com\.microsoft::MultiHeadAttention \S+ of "
        rf"text_encoder\.encoder\.layers\.0\.self_attn: {PLACE}{AGREES}{WRONG_GRAPH}{LAST}"
    )
    assert re.fullmatch(at + REAL, search(command))
    told = search(command, "--sdperf-repro-weights=real")
    assert re.fullmatch(rf"{at}Reproduce it \(real weights\): .+", told)
    assert reproduce(told, tmp_path)[0].returncode == 1


@pytest.mark.parametrize(("model", "told"), [("gelu-between", BETWEEN), ("gelu-hit", VANISHED)])
def test_what_onnxruntime_rewrites_vanishes_where_somebody_reads_in_between(search, model, told, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parent)]), prepend=os.pathsep)
    command = f"pytest suites/test_agreement.py --model={model} --component=unet --engine=approximate"
    assert re.fullmatch(
        told, search(command, "--optimization=fp32", "--exporter=torchscript", "-p", "approximate_gelu")
    )


@pytest.fixture
def torch_with_a_bug(suites_folder, tmp_path):
    """An interpreter as the engine `buggy`, in whose torch attention gives one percent too much."""
    venv.EnvBuilder(symlinks=True).create(tmp_path / "buggy")
    (packages,) = (tmp_path / "buggy").glob("lib/python*/site-packages")
    (packages / "bug.py").write_text(BUG)
    places = dict.fromkeys(str(Path(one.__file__).parents[1]) for one in (torch, np, diffusers, transformers))
    (packages / "bug.pth").write_text("\n".join([*places, "import bug", ""]))
    python = tmp_path / "buggy/bin/python"
    profile = suites_folder / "pyproject.toml"
    profile.write_text(f'[tool.sdperf.engines.buggy]\nengine = "torch"\npython = "{python}"\n')
    yield python
    profile.unlink()


def test_a_module_of_torch_is_cut_out(search, torch_with_a_bug, tmp_path):
    told = search(f"pytest suites/test_agreement.py {TEXT} --optimization=fp32".replace("ort-cpu", "buggy"))
    assert re.fullmatch(
        rf"The text_encoder goes wrong at text_encoder\.encoder\.layers\.0\.self_attn: {PLACE}{AGREES}{LAST}"
        rf"Reproduce it \(random weights\): {re.escape(str(torch_with_a_bug))} .+",
        told,
    )
    done, folder = reproduce(told, tmp_path)
    assert re.fullmatch(r"torch \S+ cpu: error 1\.00e-02, limit \S+\n", done.stdout)
    assert done.returncode == 1
    healthy = subprocess.run([sys.executable, folder / "reproduce.py"], capture_output=True, text=True, check=False)
    assert (healthy.returncode, healthy.stderr) == (0, "")
    stored = safetensors.numpy.load_file(TRAINED / "text_encoder/model.safetensors")
    for name, array in safetensors.numpy.load_file(folder / "weights.safetensors").items():
        real = next(value for key, value in stored.items() if key.endswith(f"layers.0.self_attn.{name}"))
        assert array.shape == real.shape
        assert abs(np.corrcoef(array.reshape(-1), real.reshape(-1))[0, 1]) < 0.5
