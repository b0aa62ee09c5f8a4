"""Take a graph that somebody exported into the cache: checked, with the names and shapes of the model's requests."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._made_graph import MadeGraph

if TYPE_CHECKING:
    import onnx

FILE = "model.onnx"

# What the checker and onnxruntime say of an operator that they do not have: the same file would be refused again.
_UNKNOWN = re.compile(r"No Op registered for|is not a registered function/op|No Schema registered for", re.IGNORECASE)


@dataclass(frozen=True)
class Port:
    """How one input or output of a graph becomes one of the model.

    Attributes:
        given: Its name in the graph.
        name: Its name in the model.
        shape: What the model gives where the graph wants another shape of as many numbers, or repeats one number.
        wanted: That other shape; None if it is the same.
    """

    given: str
    name: str
    shape: tuple[int, ...] = ()
    wanted: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Interface:
    """What has to be changed at the edge of a graph; outputs that are not named are left out."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class ImportGraph:
    """A graph that somebody exported.

    Attributes:
        source: Its file.
        component: What it computes.
        data: Names of the files of its weights, relative to the folder of `source`.
        interface: How it becomes a graph of the model.
    """

    source: Path
    component: str
    data: tuple[str, ...]
    interface: Interface


def run(request: ImportGraph, context: TaskContext) -> MadeGraph:
    """Write `model.onnx`, and beside it copies of its data under the names that they have.

    Returns:
        With notes of what was changed at the edge of the graph.

    Raises:
        BuildError: The graph is not valid, or an attention of it has heads that do not fit.
        CacheError: The disk is full or read-only.
    """
    import onnx
    import onnx_ir as ir

    from pytest_sdperf.fusing.head_counts import misfits
    from pytest_sdperf.fusing.limits import find_limits

    source, path = request.source, context.out_dir / FILE
    watch = Stopwatch()
    context.say(f"taking {request.component} from {source}")
    proto = onnx.load(source, load_external_data=False)
    notes = _adapt(proto.graph, request.interface)
    with disk_errors(context.cache_dir):
        for name in request.data:
            (context.out_dir / name).parent.mkdir(parents=True, exist_ok=True)
            # No link: the ONNX checker refuses data that has a second name, and a symbolic one may be changed.
            shutil.copyfile(source.parent / name, context.out_dir / name)
        onnx.save_model(proto, path)
    took = watch.took()
    context.say(f"checking the graph of {request.component}")
    try:
        described = graph.describe(path)
    except BuildError as error:
        told = str(error).rstrip(".")
        way = "without that operator, which onnxruntime does not have" if _UNKNOWN.search(told) else "again"
        raise BuildError(f"{source} cannot be used: {told}. Export it {way}.") from error
    model = ir.load(path)
    for misfit in misfits(model):
        raise BuildError(
            f"{source} cannot be used: {misfit}. Give the node the heads of its model, or export it again."
        )
    return MadeGraph(**vars(took), graph=described, notes=tuple(notes), limits=tuple(find_limits(model)))


def _adapt(proto: onnx.GraphProto, interface: Interface) -> list[str]:
    """Give a graph the inputs and outputs of the model; return what was changed."""
    inputs, outputs = interface.inputs, interface.outputs
    notes = [*_keep_outputs(proto, outputs), *_keep_inputs(proto, inputs)]
    # Before any name changes: an output may have the name that an input is to have, and the other way round.
    given = [*zip(proto.output, outputs, strict=True), *zip(proto.input, inputs, strict=False)]
    for index, (value, port) in enumerate(given):
        if port.given != port.name:
            _rename(proto, value.name, port.name)
            notes.append(f"{'output' if index < len(outputs) else 'input'} {port.given} is called {port.name}")
    for index, port in enumerate(inputs):
        if port.wanted is not None:
            _reshape(proto, index, shape=port.shape, wanted=port.wanted)
            notes.append(f"input {port.name} is given as {list(port.shape)} and used as {list(port.wanted)}")
    return notes


def _keep_outputs(proto: onnx.GraphProto, ports: Sequence[Port]) -> list[str]:
    """Leave the outputs that the model needs, in its order, each a value of its own."""
    from onnx import helper

    by_name = {value.name: value for value in proto.output}
    dropped = sorted(set(by_name) - {port.given for port in ports})
    copies = [_copy(by_name[port.given]) for port in ports]
    del proto.output[:]
    proto.output.extend(copies)
    held = {value.name for value in (*proto.input, *proto.initializer)}
    for value in proto.output:
        if value.name in held:  # it cannot have two names
            source, value.name = value.name, _unused(proto, f"{value.name}_passed_on")
            proto.node.append(helper.make_node("Identity", [source], [value.name], name=value.name))
    return [f"outputs {', '.join(dropped)} were left out"] if dropped else []


def _keep_inputs(proto: onnx.GraphProto, ports: Sequence[Port]) -> list[str]:
    """Put the inputs into the model's order; drop those that nobody reads."""
    initialized = {tensor.name for tensor in proto.initializer}
    by_name = {value.name: value for value in proto.input}
    kept = [_copy(by_name[port.given]) for port in ports]
    overridable = [_copy(value) for value in proto.input if value.name in initialized]
    dropped = sorted(set(by_name) - {port.given for port in ports} - initialized)
    del proto.input[:]
    proto.input.extend([*kept, *overridable])
    return [f"inputs {', '.join(dropped)}, which nothing reads, were left out"] if dropped else []


def _copy(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copy = type(value)()
    copy.CopyFrom(value)
    return copy


def _rename(proto: onnx.GraphProto, old: str, new: str) -> None:
    """Give a value another name wherever it is used; what has that name already gets another one."""
    if new in _names(proto):
        _rename(proto, new, _unused(proto, f"{new}_inner"))
    for node in graph.all_nodes(proto):
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
    for part in _graphs(proto):
        for value in (*part.input, *part.output, *part.value_info, *part.initializer):
            if value.name == old:
                value.name = new


def _graphs(proto: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those within it."""
    yield proto
    for node in graph.all_nodes(proto):
        for attribute in node.attribute:
            yield from (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)


def _reshape(proto: onnx.GraphProto, index: int, *, shape: Sequence[int], wanted: Sequence[int]) -> None:
    """Let an input have one shape where its readers want another one: the same number, once or repeated."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    value = proto.input[index]
    inner = _unused(proto, f"{value.name}_inner")
    for node in graph.all_nodes(proto):
        node.input[:] = [inner if name == value.name else name for name in node.input]
    sizes = numpy_helper.from_array(np.array([1] * len(wanted), dtype=np.int64), _unused(proto, f"{value.name}_shape"))
    proto.initializer.append(sizes)
    single = inner if all(size == 1 for size in wanted) else _unused(proto, f"{value.name}_single")
    nodes = [helper.make_node("Reshape", [value.name, sizes.name], [single], name=f"{single}_reshape")]
    if single != inner:
        target = numpy_helper.from_array(np.array(wanted, dtype=np.int64), _unused(proto, f"{value.name}_repeats"))
        proto.initializer.append(target)
        nodes.append(helper.make_node("Expand", [single, target.name], [inner], name=f"{inner}_expand"))
    for offset, node in enumerate(nodes):
        proto.node.insert(offset, node)
    kind: onnx.TypeProto.Tensor = value.type.tensor_type
    del kind.shape.dim[:]
    kind.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=size) for size in shape)
    kind.shape.SetInParent()


def _names(proto: onnx.GraphProto) -> set[str]:
    taken = {name for node in graph.all_nodes(proto) for name in (*node.input, *node.output)}
    taken.update(value.name for part in _graphs(proto) for value in (*part.input, *part.output, *part.initializer))
    return taken


def _unused(proto: onnx.GraphProto, stem: str) -> str:
    taken = _names(proto)
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name
