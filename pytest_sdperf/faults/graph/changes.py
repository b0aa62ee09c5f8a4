"""How a graph is changed; shared by its faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_sdperf.faults.fault import NowhereError

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    Array: TypeAlias = np.ndarray[Any, Any]


def find(model: ir.Model, *op_types: str, path: tuple[str, ...] = ()) -> list[ir.Node]:
    """Return the nodes of these types, of modules whose paths contain these pieces, in the order of the graph.

    Raises:
        NowhereError: There is none.
    """
    from pytest_sdperf.fusing.fusion_graph import path_of

    found = [node for node in model.graph if node.op_type in op_types and all(piece in path_of(node) for piece in path)]
    if not found:
        raise NowhereError(f"no {' or '.join(op_types)}{' in ' if path else ''}{' '.join(path)}")
    return found


def first_two(nodes: list[ir.Node], index: int) -> tuple[ir.Node, ir.Node]:
    """Return the first two nodes whose weights at an index have the same shape, and differ.

    Raises:
        NowhereError: There are no such two.
    """
    import numpy as np

    for number, one in enumerate(nodes):
        for other in nodes[number + 1 :]:
            alike = array(one, index).shape == array(other, index).shape
            if alike and not np.array_equal(array(one, index), array(other, index)):
                return one, other
    raise NowhereError("no two nodes with weights of the same shape")


def array(node: ir.Node, index: int) -> Array:
    """Return a weight of a node.

    Raises:
        NowhereError: The input is not there, or is computed.
    """
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None or value.const_value is None:
        raise NowhereError(f"{node.op_type} {node.name} has no weight at {index}")
    return value.const_value.numpy()


def put(model: ir.Model, node: ir.Node, index: int, contents: Array) -> None:
    """Give a node a weight of its own.

    Raises:
        NowhereError: It is the one that it has.
    """
    import numpy as np
    import onnx_ir as ir

    before = array(node, index)
    if contents.shape == before.shape and np.array_equal(contents, before):
        raise NowhereError(f"{node.op_type} {node.name} has such a weight already")
    name = f"planted_{len(model.graph.initializers)}"
    value = ir.Value(name=name, const_value=ir.tensor(np.ascontiguousarray(contents), name=name))
    value.dtype, value.shape = ir.DataType.from_numpy(contents.dtype), ir.Shape(contents.shape)
    model.graph.register_initializer(value)
    node.replace_input_with(index, value)


def swap(model: ir.Model, first: ir.Node, second: ir.Node, index: int, other: int | None = None) -> None:
    """Exchange the weights of two nodes, or two weights of one."""
    other = index if other is None else other
    one, two = array(first, index), array(second, other)
    put(model, first, index, two)
    put(model, second, other, one)


def bypass(model: ir.Model, node: ir.Node, index: int) -> None:
    """Let the readers of a node read one of its inputs."""
    import onnx_ir as ir

    source = node.inputs[index]
    assert source is not None
    ir.convenience.replace_all_uses_with(node.outputs[0], source)
    model.graph.remove(node, safe=True)


def drop_inputs(node: ir.Node, count: int) -> None:
    """Leave a node its first inputs only.

    Raises:
        NowhereError: It has no more.
    """
    if len(node.inputs) <= count:
        raise NowhereError(f"{node.op_type} {node.name} has {len(node.inputs)} inputs")
    node.resize_inputs(count)


def set_int(node: ir.Node, name: str, value: int) -> None:
    """Set an attribute that is a whole number."""
    import onnx_ir as ir

    node.attributes[name] = ir.AttrInt64(name, value)


def set_float(node: ir.Node, name: str, value: float) -> None:
    """Set an attribute that is a number."""
    import onnx_ir as ir

    node.attributes[name] = ir.AttrFloat32(name, value)
