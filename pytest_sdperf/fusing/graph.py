"""What an ONNX graph holds: counts, a hash without weights, and whether it is valid.

Nothing here reads the weights of a model except the session that proves that it loads.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.graph_precision import float32_products
from pytest_sdperf.fusing.graph_types import contradiction
from pytest_sdperf.fusing.node_names import ACTIVATION, ATTENTION, SILU, counted_name, domain_of

if TYPE_CHECKING:
    import onnx

NOT_STORED = "weights-are-not-stored"
"""In place of the file that holds a weight's data: there is none."""

# Shapes and axes. Larger ones, such as masks, may lie in the file of the weights.
_MOST_INTEGERS = 16
# Whatever the build of onnxruntime: it has these for GPUs only.
_GPU_ONLY = frozenset(
    f"com.microsoft::{name}" for name in ("BiasAdd", "BiasSplitGelu", "GroupNorm", "NhwcConv", "SkipGroupNorm")
)


@dataclass(frozen=True)
class GraphFacts:
    """What is known of a valid model.

    Attributes:
        counts: `domain::op_type` -> nodes, see `count_ops`; sorted.
        float32_products: `domain::op_type` -> products that compute in float32 though the weights are half precision.
        graph_hash: Of its structure, see `graph_hash`.
        without_cpu_kernel: `domain::op_type` that this onnxruntime cannot execute on the CPU; sorted.
    """

    counts: Mapping[str, int]
    float32_products: Mapping[str, int]
    graph_hash: str
    without_cpu_kernel: tuple[str, ...]


def describe(path: Path, *, strict: bool = False) -> GraphFacts:
    """Check a model and say what is in it.

    The weights of the model may have no data.

    Args:
        path: Its file.
        strict: Also for types and shapes that it says and that are not those that follow from its operators.

    Raises:
        BuildError: The model is not valid.
    """
    without = check_model(path, strict=strict)
    return GraphFacts(dict(sorted(count_ops(path).items())), float32_products(path), graph_hash(path), without)


def count_ops(path: Path) -> Counter[str]:
    """Count nodes by `domain::op_type`, as if every function were inlined, subgraphs included.

    The domain of ONNX itself is empty, also where the file spells it `ai.onnx`: `::Conv`,
    `com.microsoft::SkipLayerNormalization`. An op_type alone would confuse ONNX's Attention with Microsoft's.
    Attention with packed inputs and norms with an activation have names of their own, see `node_names.counted_name`.
    """
    import onnx

    return count_model(onnx.load(path, load_external_data=False))


def count_model(model: onnx.ModelProto) -> Counter[str]:
    """Count the nodes of a model as `count_ops` does those of a file."""
    return _count(model.graph.node, {_function_key(function): function for function in model.functions})


def all_nodes(part: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of the graphs within it."""
    for node in part.node:
        yield node
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from all_nodes(inner)


def _count(
    nodes: Iterable[onnx.NodeProto], functions: Mapping[tuple[str, str, str], onnx.FunctionProto]
) -> Counter[str]:
    counts: Counter[str] = Counter()
    for node in nodes:
        function = functions.get((domain_of(node.domain), node.op_type, node.overload))
        if function is not None:
            counts += _count(function.node, functions)
        else:
            activated = any(attribute.name == ACTIVATION and attribute.i == 1 for attribute in node.attribute)
            given = [bool(name) for name in node.input]
            counts[counted_name(node.domain, node.op_type, given, activated=activated)] += 1
        for attribute in node.attribute:
            for subgraph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                counts += _count(subgraph.node, functions)
    return counts


def _function_key(function: onnx.FunctionProto) -> tuple[str, str, str]:
    return domain_of(function.domain), function.name, function.overload


def graph_hash(path: Path) -> str:
    """Return 16 hex digits for the structure of a model, without its weights.

    Two models have the same hash if their nodes (op, attributes, wiring), opsets, inputs, outputs and the shapes and
    types of their initializers agree. Names of nodes and intermediate values, the order of nodes in the file,
    producer strings, doc strings, metadata and floating-point values do not count; small integer values do, because
    they are shapes and axes.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    opsets = sorted((domain_of(opset.domain), opset.version) for opset in model.opset_import)
    functions = sorted(_function_hash(function) for function in model.functions)
    return _digest("model", opsets, functions, _graph_parts(model.graph, {}))[:16]


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _function_hash(function: onnx.FunctionProto) -> str:
    known = {name: _digest("argument", index) for index, name in enumerate(function.input)}
    nodes = _node_hashes(function.node, known)
    attributes = (sorted(function.attribute), sorted(_attribute(a, known) for a in function.attribute_proto))
    return _digest(
        _function_key(function), attributes, sorted(nodes), [known.get(name, "") for name in function.output]
    )


def _graph_parts(graph: onnx.GraphProto, outer: Mapping[str, str]) -> tuple[Any, ...]:
    known = dict(outer)
    initializers = {tensor.name: _digest("initializer", _tensor(tensor)) for tensor in graph.initializer}
    inputs = [(value.name, _type(value)) for value in graph.input if value.name not in initializers]
    known.update(initializers)
    known.update({name: _digest("input", index, kind) for index, (name, kind) in enumerate(inputs)})
    nodes = _node_hashes(graph.node, known)
    outputs = [(value.name, _type(value), known.get(value.name, "")) for value in graph.output]
    return inputs, outputs, sorted(nodes), sorted(initializers.values())


def _node_hashes(nodes: Iterable[onnx.NodeProto], known: dict[str, str]) -> list[str]:
    """Hash each node from the hashes of its inputs, and add its outputs to `known` (nodes are in topological order)."""
    hashes = []
    for node in nodes:
        attributes = sorted(_attribute(attribute, known) for attribute in node.attribute)
        inputs = [known.get(name, "") if name else None for name in node.input]
        kind = (domain_of(node.domain), node.op_type, node.overload)
        hashes.append(_digest(kind, attributes, inputs, len(node.output)))
        known.update({name: _digest(hashes[-1], index) for index, name in enumerate(node.output) if name})
    return hashes


def _attribute(attribute: onnx.AttributeProto, known: Mapping[str, str]) -> str:
    import onnx

    kinds = onnx.AttributeProto
    if attribute.type in (kinds.GRAPH, kinds.GRAPHS):
        value: Any = [_graph_parts(part, known) for part in (*attribute.graphs, attribute.g)]
    elif attribute.type in (kinds.TENSOR, kinds.TENSORS):
        value = [_tensor(tensor) for tensor in (*attribute.tensors, attribute.t)]
    else:
        plain = onnx.AttributeProto()
        plain.CopyFrom(attribute)
        plain.ClearField("doc_string")
        value = plain.SerializeToString(deterministic=True)
    return _digest(attribute.name, attribute.type, value)


def _tensor(tensor: onnx.TensorProto) -> tuple[Any, ...]:
    import onnx
    from onnx import numpy_helper

    described = (tensor.data_type, tuple(tensor.dims))
    integral = tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)
    if not integral or math.prod(tensor.dims) > _MOST_INTEGERS or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return described
    return (*described, numpy_helper.to_array(tensor).tobytes())


def _type(value: onnx.ValueInfoProto) -> bytes:
    return bytes(value.type.SerializeToString(deterministic=True))


def check_model(path: Path, *, strict: bool = False) -> tuple[str, ...]:
    """Check a model with the ONNX checker and load it in onnxruntime on the CPU.

    Args:
        path: The graph file; external data lies next to it, so models over 2 GB pass through here too. Weights
            without data are looked at as if they were inputs.
        strict: Whether the checker infers types and shapes as well, for which it reads no weights.

    Returns:
        `domain::op_type` of the nodes that have no kernel on the CPU. If there are any, the model was parsed and its
        types were resolved by onnxruntime, but no session could be made, or it would fail when it runs.

    Raises:
        BuildError: The checker or onnxruntime refuses the model.
    """
    import onnx
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    model = _without_weights(path) or str(path)
    try:
        onnx.checker.check_model(model, full_check=strict)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        said = _first_line(error)
        if "TypeInferenceError" in said:  # which says two numbers, and not always where
            said = contradiction(onnx.load(path, load_external_data=False)) or said
        raise BuildError(f"the ONNX checker refuses {path.name}: {said}") from error
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except state.NotImplemented as error:
        return without_cpu_kernel(path, str(error))
    except Exception as error:
        said = _first_line(error).replace(str(path), path.name)
        raise BuildError(f"onnxruntime {onnxruntime.__version__} refuses {path.name}: {said}") from error
    # The kernel of attention throws at packed inputs, but not before it runs.
    return tuple(sorted(name for name in count_ops(path) if name.startswith(f"{ATTENTION}[")))


def _without_weights(path: Path) -> bytes | None:
    """Return a model whose weights without data are inputs, of which nobody reads a value; None if all have data."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    missing = [tensor for tensor in model.graph.initializer if _is_missing(tensor)]
    if not missing:
        return None
    names = {tensor.name for tensor in missing}
    inputs = [onnx.helper.make_tensor_value_info(part.name, part.data_type, part.dims) for part in missing]
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in names]
    model.graph.input.extend(inputs)
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    content: bytes = model.SerializeToString()
    return content


def _is_missing(tensor: onnx.TensorProto) -> bool:
    return any(entry.key == "location" and entry.value == NOT_STORED for entry in tensor.external_data)


def without_cpu_kernel(path: Path, refusal: str) -> tuple[str, ...]:
    """Return `domain::op_type` of the nodes for which onnxruntime has no CPU kernel, sorted.

    Its list of kernels is not asked: the build for CUDA crashes over that question where CUDA's libraries are not
    loaded, as in a process that only builds.

    Args:
        path: A model for which no session could be made.
        refusal: What onnxruntime said; it names one operator.
    """
    named = re.search(r"implementation for (\w+)\(", refusal)
    return tuple(
        sorted(
            name
            for name in count_ops(path)
            if name.removesuffix(SILU) in _GPU_ONLY
            or name.startswith(f"{ATTENTION}[")
            or (named is not None and name.rpartition("::")[2] == named.group(1))
        )
    )


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
