"""What is derived from torch modules against what the fuser `native` makes of exported graphs: the places it leaves.

That it leaves none of the graphs of the zoo is told by `tests/fusing/test_native_zoo.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import graph_zoo
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from zoo_targets import OPTIMIZATIONS, budgets, counted, expected

from pytest_sdperf.builds.expectations import explain_build
from pytest_sdperf.core.values import Build
from pytest_sdperf.fusing import record
from pytest_sdperf.fusing.explain import NO_CANDIDATE, Explanation, explain
from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.fusing.places import places_left

UNET = "torch-2.13/sd15-thin-unet-dynamo-18-static"
TRACED = "torch-2.13/sd15-thin-unet-torchscript-17-static"
MHA = "com.microsoft::MultiHeadAttention"


def fused(model):
    """Fuse a graph in place at the last optimization."""
    sites = fuse(model, [fusion for optimization in OPTIMIZATIONS.values() for fusion in optimization.fusions()])
    return counted(model), sites


def spoil_softmax(model, path):
    """Let the softmax of an attention run over another axis."""
    (node,) = (n for n in model.graph if n.op_type == "Softmax" and path in _text(n))
    node.attributes["axis"] = ir.AttrInt64("axis", 1)
    return node


def spoil_norm(model, path):
    """Let a group norm scale its groups."""
    (node,) = (n for n in model.graph if n.op_type == "InstanceNormalization" and path in _text(n))
    ones = ir.convenience.get_const_tensor(node.inputs[1])
    tensor = ir.tensor(np.full(ones.shape.numpy(), 2, dtype=np.float32), name="twos")
    value = ir.Value(name="twos", type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
    model.graph.register_initializer(value)
    node.replace_input_with(1, value)
    return node


def spoil_gelu(model, path):
    """Let there be no error function, so that no rule has a candidate."""
    (node,) = (n for n in model.graph if n.op_type == "Erf" and path in _text(n))
    node.op_type = "Tanh"
    return node


def _text(node):
    """What an exporter says about the module of a node, in the spelling of its path."""
    return f"{node.metadata_props.get('pkg.torch.onnx.name_scopes', '')} {(node.name or '').replace('/', '.')}."


BLOCK = "up_blocks.1.attentions.2.transformer_blocks.0"


NO_SOFTMAX = "it is no softmax over the last axis of scores of rank 3 or 4"
SCALED = "it scales or shifts its groups"
NORM, SKIP = "com.microsoft::GroupNorm", "com.microsoft::SkipGroupNorm"


@pytest.mark.parametrize("name", [UNET, TRACED])
@pytest.mark.parametrize(
    ("spoil", "path", "told"),
    [
        (spoil_softmax, f"{BLOCK}.attn1", (f"{MHA}[packed-qkv]", MHA, NO_SOFTMAX)),
        (spoil_softmax, f"{BLOCK}.attn2", (f"{MHA}[packed-kv]", MHA, NO_SOFTMAX)),
        (spoil_norm, "down_blocks.1.resnets.0.norm2", (f"{SKIP}[silu]", NORM, SCALED)),
        (spoil_norm, "up_blocks.0.resnets.1.norm1", (f"{NORM}[silu]", NORM, SCALED)),
        (spoil_gelu, f"{BLOCK}.ff.net.0", ("com.microsoft::BiasSplitGelu", "", NO_CANDIDATE)),
    ],
)
def test_the_one_place_that_does_not_fuse_is_named(name, spoil, path, told):
    model = graph_zoo.load_structure(name)
    node = spoil(model, path).name
    _, places = expected(name, "bias-add")
    counts, seen = fused(model)
    (one,) = explain(places, seen, counts).unfused
    assert (one.path, (one.op, one.rule, one.reason)) == (f"unet.{path}", told)
    assert one.node == (node if one.rule else "")


MANUAL = (Path(__file__).parents[2] / "docs/fusions.md").read_text(encoding="utf-8")
HEADINGS = {
    "MHA": MHA,
    "packed QKV": f"{MHA}[packed-qkv]",
    "packed KV": f"{MHA}[packed-kv]",
    "LayerNorm": "::LayerNormalization",
    "Transpose": "::Transpose",
    "SkipLayerNorm": "com.microsoft::SkipLayerNormalization",
}


def table(mark):
    """The rows of a table of the manual: its first cells as a tuple -> counts by operator, zeros left out."""
    lines = MANUAL.partition(f"<!-- {mark}")[2].partition("-->")[2].strip().partition("\n\n")[0].splitlines()
    heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    ops = {at: HEADINGS.get(name, f"com.microsoft::{name}") for at, name in enumerate(heading)}
    first = heading.index("MHA")
    return {
        tuple(row[:first]): {ops[at]: int(row[at]) for at in range(first, len(row)) if int(row[at])} for row in rows
    }


def without_zeros(counts):
    return {op: nodes for op, nodes in counts.items() if nodes}


def test_the_manual_has_the_derived_counts():
    names = [f"/{model}-thin-{component}-" for model, component in table("derived")]
    derived = [without_zeros(expected(name, "bias-add")[0]) for name in names]
    assert derived == list(table("derived").values())


def test_the_manual_has_the_known_counts():
    stored = json.loads((Path(__file__).parents[2] / "baselines/fusions/onnxruntime-1.32.json").read_text())["cases"]
    known = [
        f"model=sd15 component=unet optimization=bias-add fuser=ort exporter={exporter} opset=18 shapes=static"
        for exporter in ("dynamo", "torchscript")
    ]
    target = {**expected(UNET, "bias-add")[0], **budgets(UNET, "bias-add")}
    assert list(table("known").values()) == [*(without_zeros(stored[key]) for key in known), without_zeros(target)]


def build(folder: Path, **fields):
    return Build("k", "onnx", folder / "model.onnx", "float16", notes=("a note",), limits=("a limit",), **fields)


def test_a_build_is_explained_from_the_file_beside_it(tmp_path):
    site = {"op": "a::B", "path": "x", "node": "n", "op_type": "Add", "reason": "no"}
    (tmp_path / record.FILE).write_text(json.dumps([site]))
    found = explain_build(build(tmp_path, counts={}), {"a::B": ["x"]})
    assert [(one.path, one.reason) for one in found.unfused] == [("x", "no")]
    assert (found.limits, found.notes, found.located) == (("a limit",), ("a note",), True)


def test_a_build_without_that_file_is_not_explained(tmp_path):
    assert explain_build(build(tmp_path), {"a::B": ["x"]}) == Explanation(
        {"a::B": ["x"]}, limits=("a limit",), notes=("a note",), located=False
    )


def test_a_build_of_which_nothing_is_expected_needs_no_file(tmp_path):
    assert explain_build(build(tmp_path), {}) == Explanation({}, limits=("a limit",), notes=("a note",))


def test_what_is_left_beyond_its_budget_is_looked_for_in_the_graph(tmp_path):
    def transpose(name: str, given: str, made: str, scopes: str = "") -> onnx.NodeProto:
        node = onnx.helper.make_node("Transpose", [given], [made], name=name, perm=[0, 2, 1])
        if scopes:
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
        return node

    scopes = "['', 'down_blocks.0', 'down_blocks.0.norm', 'transpose']"
    nodes = [
        transpose("first", "x", "a"),
        transpose("second", "a", "b", scopes),
        transpose("/mid_block/attn/third", "b", "c"),
        transpose("put_in", "c", "y"),
    ]
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4, 4]) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), tmp_path / "model.onnx")
    own = build(tmp_path, counts={"::Transpose": 4})
    assert explain_build(own, {}, budgets={"::Transpose": 2, "::Reshape": 0}).left == {
        "::Transpose": (
            "next to down_blocks.0.norm (first)",
            "down_blocks.0.norm (second)",
            "mid_block.attn (/mid_block/attn/third)",
            "next to mid_block.attn (put_in)",
        )
    }
    assert explain_build(own, {}, budgets={"::Transpose": 4}).left == {}
    assert places_left(tmp_path / "model.onnx", {"::Reshape"}) == {}
