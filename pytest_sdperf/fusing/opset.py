"""Opsets: the version that a model declares, moved to one whose operators have kernels in ONNX Runtime for CUDA."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.fusion_graph import FusionGraph

OLDEST, NEWEST = 18, 20
"""The opsets whose operators have kernels in ONNX Runtime's CUDA provider, release by release."""

# Before it, axes of Squeeze and others are attributes.
_OLDEST_READ = 13


def declare(graph: FusionGraph) -> None:
    """Declare an opset that is safe, if the model declares an earlier or later one.

    Raises:
        BuildError: An operator is not the same there.
    """
    given = graph.graph.opset_imports.get("", 0)
    if OLDEST <= given <= NEWEST:
        return
    if given < _OLDEST_READ:
        raise BuildError(f"the graph declares opset {given}; supported: {_OLDEST_READ} and later. Export it again.")
    for node in list(graph.graph):
        if node.domain == "" and given < OLDEST and node.op_type in _RAISED:
            _RAISED[node.op_type](node, graph)
    wanted = OLDEST if given < OLDEST else NEWEST
    for node in graph.graph.all_nodes():
        if node.domain == "":
            _check(node, given, wanted)
    graph.graph.opset_imports[""] = wanted


def _check(node: ir.Node, given: int, wanted: int) -> None:
    """Refuse a node that a schema of the wanted opset does not know.

    Later versions of an operator that are known there differ in the types that they take, none of them floating point
    types of these models.
    """
    what = ""
    try:
        schema = onnx.defs.get_schema(node.op_type, wanted, "")
    except onnx.defs.SchemaError:
        what = "does not exist"
    else:
        _drop_defaults(node, given, schema)
        unknown = sorted(set(node.attributes) - set(schema.attributes))
        if schema.deprecated:
            what = "does not exist"
        elif unknown:
            what = f"has no {' and no '.join(unknown)}"
        elif len(node.inputs) > schema.max_input:
            what = f"takes no more than {schema.max_input} of its {len(node.inputs)} inputs"
    if what:
        raise BuildError(
            f"operator {node.op_type} of node {node.name} {what} in opset {wanted}; the graph declares {given} and is "
            f"fused for {OLDEST} to {NEWEST}. Export it for one of these."
        )


def _drop_defaults(node: ir.Node, given: int, schema: onnx.defs.OpSchema) -> None:
    """Remove attributes that a schema does not know and that say what is so without them.

    ONNX Runtime writes every attribute into a graph that it saves.
    """
    known = onnx.defs.get_schema(node.op_type, given, "").attributes if onnx.defs.has(node.op_type, given, "") else {}
    for name in (set(node.attributes) & set(known)) - set(schema.attributes):
        if ir.to_proto(node.attributes[name]) == known[name].default_value:
            del node.attributes[name]


def _split(node: ir.Node, _: FusionGraph) -> None:
    """Say the number of parts, which was that of the outputs."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))


def _reduce(node: ir.Node, graph: FusionGraph) -> None:
    """Give the axes as an input."""
    axes = node.attributes.pop("axes", None)
    if axes is not None:
        constant = graph.constant(np.array(axes.as_ints(), dtype=np.int64), "axes")
        node.resize_inputs(2)
        node.replace_input_with(1, constant)


# What opset 18 writes differently. All else that changed since 13 takes more types, or has defaults that do as before.
_RAISED: Mapping[str, Callable[[ir.Node, FusionGraph], None]] = {
    "Split": _split,
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
         "ReduceProd", "ReduceSumSquare"),
        _reduce,
    ),
}  # fmt: skip
