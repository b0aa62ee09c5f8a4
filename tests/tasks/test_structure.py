"""Exporting and fusing without weights: the same graph, and not a byte of a weight."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from tiny_model import TinyModel, make_catalog

from pytest_sdperf import builtins
from pytest_sdperf.core import ladder
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.values import Workload, to_json
from pytest_sdperf.fusing import graph
from pytest_sdperf.fusing.weightless import is_missing
from pytest_sdperf.models._components import TextEncoder
from pytest_sdperf.models._released import NARROW_CLIP_L
from pytest_sdperf.models._stable_diffusion import StableDiffusion
from pytest_sdperf.tasks import TaskContext, _structure, export, fuse_native
from pytest_sdperf.tasks import weights as weights_task
from pytest_sdperf.tasks._fuse_graph import FuseGraph
from pytest_sdperf.tasks.sampling.phases import Silent

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]


def context(folder, catalog=None):
    folder.mkdir()
    return TaskContext(folder, catalog or make_catalog(), Silent(), lambda text: None)


def exported(folder, *, model="tiny", component="unet", catalog=None, **changes):
    workload = Workload(batch_size=2, height=128, width=192)
    request = export.ExportModule(model, component, "dynamo", 18, "static", workload)
    return export.run(dataclasses.replace(request, **changes), context(folder, catalog))


def drawn(folder, *, model="tiny", component="unet", catalog=None):
    weights_task.run(weights_task.WriteWeights(model, component), context(folder, catalog))
    return folder / weights_task.FILE


def fused(folder, source, optimizations, *, component="unet", dtype="float16"):
    request = FuseGraph(source / export.FILE, component, optimizations, dtype, float32=("timestep",))
    return fuse_native.run(request, context(folder))


def comparable(answer):
    return dataclasses.replace(answer, seconds=0.0, cpu_seconds=0.0)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("structure")
    answers = {
        "with": exported(folder / "with", weights=drawn(folder / "weights")),
        "without": exported(folder / "without"),
    }
    return folder, answers


def test_the_graph_is_that_of_an_export_with_weights(tiny):
    folder, answers = tiny
    assert comparable(answers["without"]) == comparable(answers["with"])
    assert [path.name for path in (folder / "without").iterdir()] == ["model.onnx"]
    assert b".py" not in (folder / "without" / "model.onnx").read_bytes()
    json.dumps(to_json(answers["without"]))


def test_also_with_another_opset_and_open_shapes(tiny, tmp_path):
    other = {"shapes": "dynamic", "opset": 23}
    given = exported(tmp_path / "with", weights=tiny[0] / "weights" / weights_task.FILE, **other)
    assert comparable(exported(tmp_path / "without", **other)) == comparable(given)


def test_weights_have_no_data_and_everything_else_has(tiny):
    model = ir.load(tiny[0] / "without" / "model.onnx")
    tensors = [value.const_value for value in model.graph.initializers.values()]
    missing = [tensor for tensor in tensors if is_missing(tensor)]
    module = TinyModel().module("unet", weights=None)
    assert sum(tensor.size for tensor in missing) == sum(parameter.numel() for parameter in module.parameters())
    kept = [tensor.numpy() for tensor in tensors if not is_missing(tensor)]
    assert any(np.allclose(array.reshape(-1), np.exp(-np.arange(16) / 4)) for array in kept if array.size == 16)
    assert all(np.isfinite(array).all() for array in kept)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_fused_without_weights_it_is_the_same_graph_too(tiny, tmp_path, dtype):
    optimizations = ladder.optimizations("bias-add", make_catalog().ladder)
    given = fused(tmp_path / "with", tiny[0] / "with", optimizations, dtype=dtype)
    bare = fused(tmp_path / "without", tiny[0] / "without", optimizations, dtype=dtype)
    assert comparable(bare) == comparable(given)
    assert bare.graph.counts["com.microsoft::SkipLayerNormalization"] == 5
    assert sorted(path.name for path in (tmp_path / "without").iterdir()) == ["model.onnx", "sites.json"]
    assert (tmp_path / "without/sites.json").read_text() == (tmp_path / "with/sites.json").read_text()


def test_a_faulty_graph_is_refused_also_without_weights(tiny, tmp_path):
    model = onnx.load(tiny[0] / "without" / "model.onnx", load_external_data=False)
    (node,) = [node for node in model.graph.node if node.op_type == "MatMul"][:1]
    node.input[1] = "nobody"
    (tmp_path / "source").mkdir()
    onnx.save(model, tmp_path / "source" / "model.onnx")
    with pytest.raises(
        BuildError, match=r"^the ONNX checker refuses model\.onnx: Nodes in a graph must be topologically"
    ):
        graph.describe(tmp_path / "source" / "model.onnx")


def test_shapes_that_do_not_fit_are_refused_also_without_weights(tiny, tmp_path):
    model = onnx.load(tiny[0] / "without" / "model.onnx", load_external_data=False)
    node = next(node for node in model.graph.node if node.op_type == "MatMul")
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == node.input[1])
    weight.dims[0] += 1
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(BuildError, match=r"^onnxruntime [\d.]+ refuses model.onnx: .*Incompatible dimensions"):
        graph.describe(tmp_path / "model.onnx")


def test_the_tracer_needs_weights(tmp_path):
    with pytest.raises(BuildError) as raised:
        exported(tmp_path / "out", exporter="torchscript")
    assert str(raised.value) == (
        "the exporter torchscript executes the module, which needs weights. Use the exporter dynamo."
    )


class Part(torch.nn.Module):
    def __init__(self, *, device):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.empty(3, device="meta"))
        self.same = self.scale
        self.register_buffer("steps", torch.arange(3, device=device), persistent=False)


def test_a_hollow_module_is_on_the_cpu_and_shares_what_it_shared():
    part = torch.nn.ModuleDict({"a": Part(device="cpu")})
    part["b"] = torch.nn.ParameterList([part["a"].scale])
    _structure.hollow(part, "a part")
    assert part["a"].scale is part["b"][0]
    assert (part["a"].scale.device.type, part["a"].scale.requires_grad) == ("cpu", False)
    assert part["a"].steps.tolist() == [0, 1, 2]


def test_a_buffer_without_values():
    with pytest.raises(BuildError) as raised:
        _structure.hollow(torch.nn.ModuleDict({"a": Part(device="meta")}), "tiny unet")
    assert str(raised.value) == (
        "buffers of tiny unet have no values without weights: a.steps. `module` of the model must fill what no weights "
        "file stores, also when it is called with weights=None."
    )


def short_encoder():
    """A text encoder of two layers: position ids, a causal mask, and all that its exports make of them."""
    encoder = TextEncoder({**NARROW_CLIP_L, "num_hidden_layers": 2})
    catalog = make_catalog()
    with catalog.owned_by(Registrar("nobody", Path(__file__))):
        catalog.add_model(StableDiffusion(name="short", parts={"text_encoder": encoder}, scheduler_config={}))
    return {"model": "short", "component": "text_encoder", "catalog": catalog}


def shallow(component):
    """A component of the thin model with one layer of each kind: the others are exported as the first is."""
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    model, one = catalog.models.get("sd15-thin"), {"layers_per_block": 1}
    with catalog.owned_by(Registrar("nobody", Path(__file__))):
        catalog.add_model(model.variant("shallow", config={"unet": one, "vae": one}))
    return {"model": "shallow", "component": component, "catalog": catalog}


@pytest.mark.parametrize(
    ("what", "shapes", "opset"),
    [
        pytest.param(short_encoder(), "static", 18, id="short-text-encoder"),
        pytest.param(shallow("vae_decoder"), "dynamic", 20, marks=pytest.mark.slow, id="vae_decoder-dynamic-20"),
        pytest.param(shallow("unet"), "static", 18, marks=pytest.mark.slow, id="unet"),
    ],
)
def test_real_topologies_are_the_same_without_weights(tmp_path, what, shapes, opset):
    weights = drawn(tmp_path / "weights", **what)
    given = exported(tmp_path / "with", weights=weights, shapes=shapes, opset=opset, **what)
    assert comparable(exported(tmp_path / "without", shapes=shapes, opset=opset, **what)) == comparable(given)


def test_position_ids_and_masks_are_real(tmp_path):
    exported(tmp_path / "out", **short_encoder())
    model = ir.load(tmp_path / "out" / "model.onnx")
    tensors = [value.const_value for value in model.graph.initializers.values()]
    arrays = [tensor.numpy() for tensor in tensors if not is_missing(tensor)]
    masks = [array for array in arrays if array.shape[-2:] == (77, 77)]
    assert masks
    for mask in masks:
        hidden = ~mask if mask.dtype == bool else mask < -1e4
        np.testing.assert_array_equal(hidden.reshape(-1, 77, 77)[0], ~np.tri(77, dtype=bool))


@pytest.mark.slow
def test_a_component_of_released_size_needs_no_memory_for_weights(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "from pytest_sdperf import builtins; from pytest_sdperf.core.machine import host_memory\n"
        "from pytest_sdperf.core.catalog import Catalog\n"
        "from pytest_sdperf.tasks import export; from pytest_sdperf.core.values import Workload\n"
        "catalog = Catalog(); builtins.pytest_sdperf_register(catalog)\n"
        # The narrow one first: what the libraries take is not known, a build of torch for CUDA takes 0.6 GB more.
        "for name in ('sd21-thin', 'sd21'):\n"
        "    model = catalog.models.get(name).variant(name, config={'text_encoder': {'num_hidden_layers': 6}})\n"
        "    export._dynamo(model, 'text_encoder', Path(sys.argv[1]), weights=None, opset=18, "
        " dynamic=False, workload=Workload(1, 512, 512))\n"
        # Not ru_maxrss: across exec it keeps the peak of the process that forked, here the whole test run's.
        "    print(f'peak {host_memory.peak_bytes()}')"
    )
    path = tmp_path / "model.onnx"
    answer = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    thin, full = map(int, re.findall(r"^peak (\d+)$", answer.stdout, re.MULTILINE))
    assert full - thin < 0.1e9, "the weights alone take 0.5 GB"
    assert path.stat().st_size < 2e6
