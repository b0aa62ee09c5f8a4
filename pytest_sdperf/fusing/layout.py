"""Channels-last images: where the transposes go that convolutions and norms in that layout need.

An image value is (N, C, H, W) for ONNX and (N, H, W, C) for the fused operators. Fusions put a transpose on each side;
`settle` moves those towards the end of the graph through everything that works in either layout, until two meet and
cancel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.fusion_graph import FusionGraph

NCHW_TO_NHWC = (0, 2, 3, 1)
NHWC_TO_NCHW = (0, 3, 1, 2)

_EITHER = (
    "Abs", "Add", "Cast", "Clip", "Div", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu",
    "Max", "Min", "Mul", "Neg", "Pow", "Relu", "Sigmoid", "Sqrt", "Sub", "Tanh",
)  # fmt: skip


def to_nhwc(value: ir.Value, graph: FusionGraph, *, before: ir.Node) -> ir.Value:
    """Return an image (N, C, H, W) in channels-last layout, by a new transpose only if there is none yet."""
    return _transposed(value, graph, NCHW_TO_NHWC, NHWC_TO_NCHW, before)


def to_nchw(value: ir.Value, graph: FusionGraph, *, before: ir.Node) -> ir.Value:
    """Return an image (N, H, W, C) with its channels second, by a new transpose only if there is none yet."""
    return _transposed(value, graph, NHWC_TO_NCHW, NCHW_TO_NHWC, before)


def nhwc_of(value: ir.Value, graph: FusionGraph) -> ir.Value | None:
    """Return the image (N, C, H, W) of which a value is the transpose to channels-last; None if it is none."""
    return _undone(value, graph, NCHW_TO_NHWC)


def _undone(value: ir.Value | None, graph: FusionGraph, perm: tuple[int, ...]) -> ir.Value | None:
    node = graph.producer(value, "Transpose")
    return node.inputs[0] if node is not None and is_transpose(node, perm) else None


def is_transpose(node: ir.Node, perm: tuple[int, ...]) -> bool:
    """Say whether a node is the transpose by `perm`."""
    return node.op_type == "Transpose" and "perm" in node.attributes and tuple(node.attributes["perm"].value) == perm


def _transposed(
    value: ir.Value, graph: FusionGraph, perm: tuple[int, ...], inverse: tuple[int, ...], before: ir.Node
) -> ir.Value:
    undone = _undone(value, graph, inverse)
    if undone is not None:
        return undone
    for node in graph.users(value):
        if is_transpose(node, perm) and not graph.is_output(node.outputs[0]):
            return node.outputs[0]
    return graph.add("Transpose", [value], {"perm": perm}, before=before).outputs[0]


def settle(graph: FusionGraph) -> None:
    """Move transposes to channels-first down the graph until they cancel."""
    graph.graph.sort()
    for node in list(graph.graph):
        if node.graph is None:
            continue
        if is_transpose(node, NCHW_TO_NHWC) and (origin := _undone(node.inputs[0], graph, NHWC_TO_NCHW)) is not None:
            graph.replace(node.outputs[0], origin)
        elif node.op_type in _MOVES and node.domain == "":
            _MOVES[node.op_type](node, graph)
    graph.graph.sort()


def _finish(node: ir.Node, moved: ir.Node, graph: FusionGraph) -> None:
    """Put a node in channels-last layout in the place of one in channels-first layout."""
    if node.outputs[0].dtype is not None:
        moved.outputs[0].dtype = node.outputs[0].dtype
    graph.shapes.permute(node.outputs[0], moved.outputs[0], NCHW_TO_NHWC)
    graph.replace(node.outputs[0], to_nchw(moved.outputs[0], graph, before=node))


def _either(node: ir.Node, graph: FusionGraph) -> None:
    """Move through an elementwise node if every operand exists in channels-last layout."""
    makers = [_operand(value, graph, before=node) for value in node.inputs]
    if all(make is not None for make in makers) and any(_undone(value, graph, NHWC_TO_NCHW) for value in node.inputs):
        inputs = [make() for make in makers if make is not None]
        _finish(node, graph.add(node.op_type, inputs, node.attributes, before=node), graph)


def _operand(value: ir.Value | None, graph: FusionGraph, *, before: ir.Node) -> Callable[[], ir.Value | None] | None:
    """Say how to get an operand of an elementwise node in channels-last layout; None if there is no way."""
    origin = _undone(value, graph, NHWC_TO_NCHW)
    if value is None or origin is not None:
        return lambda: origin
    shape = graph.shapes.fixed(value)
    if shape is None or len(shape) > 4:
        return None
    if all(size == 1 for size in shape):
        return lambda: value
    if len(shape) < 3 or shape[-2:] != (1, 1):
        return None
    channels = shape[-3]
    if graph.is_weight(value) and channels is not None and all(size == 1 for size in shape[:-3]):
        return lambda: graph.weight(value, "last", (channels,), lambda weight: weight.reshape(-1))
    if len(shape) == 4:
        return lambda: graph.add("Transpose", [value], {"perm": NCHW_TO_NHWC}, before=before).outputs[0]
    return None


def _concat(node: ir.Node, graph: FusionGraph) -> None:
    """Move through a concatenation of images that all are transposed."""
    origins = [_undone(value, graph, NHWC_TO_NCHW) for value in node.inputs]
    if all(origin is not None for origin in origins):
        axis = NCHW_TO_NHWC.index(node.attributes["axis"].as_int() % 4)
        _finish(node, graph.add("Concat", origins, {"axis": axis}, before=node), graph)


def _resize(node: ir.Node, graph: FusionGraph) -> None:
    """Move through an enlargement by repetition: its factors or sizes are permuted."""
    origin = _undone(node.inputs[0], graph, NHWC_TO_NCHW)
    mode = node.attributes["mode"].as_string() if "mode" in node.attributes else "nearest"
    # The kernels interpolate images with their channels second only; axes and corners are not written by exporters.
    if origin is None or mode != "nearest" or "axes" in node.attributes or _has_corners(node, graph):
        return
    vectors = [value if _is_filled(value, graph) else None for value in node.inputs[2:]]
    permuted = [None if value is None else _permuted(value, graph, before=node) for value in vectors]
    _finish(node, graph.add("Resize", [origin, None, *permuted], node.attributes, before=node), graph)


def _has_corners(node: ir.Node, graph: FusionGraph) -> bool:
    return len(node.inputs) > 1 and _is_filled(node.inputs[1], graph)


def _is_filled(value: ir.Value | None, graph: FusionGraph) -> bool:
    """Say whether an input is there; an empty tensor stands for one that is left out."""
    return value is not None and graph.shapes.fixed(value) != (0,)


def _permuted(vector: ir.Value, graph: FusionGraph, *, before: ir.Node) -> ir.Value:
    """Return a vector of one number per axis in the order of channels-last layout."""
    known = graph.shapes.constant(vector)
    if known is not None:
        return graph.constant(known[list(NCHW_TO_NHWC)], "permuted")
    order = graph.constant(np.array(NCHW_TO_NHWC, dtype=np.int64), "order")
    return graph.add("Gather", [vector, order], {"axis": 0}, before=before).outputs[0]


def _pad(node: ir.Node, graph: FusionGraph) -> None:
    """Move through a padding by fixed numbers."""
    origin = _undone(node.inputs[0], graph, NHWC_TO_NCHW)
    pads = None if len(node.inputs) < 2 or node.inputs[1] is None else graph.shapes.constant(node.inputs[1])
    if origin is None or pads is None or pads.size != 8 or (len(node.inputs) > 3 and node.inputs[3] is not None):
        return
    order = list(NCHW_TO_NHWC)
    permuted = graph.constant(np.concatenate([pads[:4][order], pads[4:][order]]), "pads")
    _finish(node, graph.add("Pad", [origin, permuted, *node.inputs[2:3]], node.attributes, before=node), graph)


def _reshape(node: ir.Node, graph: FusionGraph) -> None:
    """(B, HW, C) transposed to (B, C, HW) and cut to (B, C, H, W): cut to (B, H, W, C) and transpose then."""
    sequence = _undone(node.inputs[0], graph, (0, 2, 1))
    shapes = graph.shapes.of(node.outputs[0])
    sources = None if sequence is None else graph.shapes.of(sequence)
    if sequence is None or shapes is None or sources is None:
        return
    if any(len(s) != 4 or src != (s[0], s[2] * s[3], s[1]) for s, src in zip(shapes, sources, strict=True)):
        return
    wanted = node.inputs[1]
    assert wanted is not None
    values = graph.shapes.values(wanted)
    # A 0 keeps a size where it is; the first axis is the only one that stays there.
    if values is None or any(np.any(array[1:] == 0) for array in values):
        return
    moved = graph.add("Reshape", [sequence, _permuted(wanted, graph, before=node)], before=node)
    _finish(node, moved, graph)


def _shape(node: ir.Node, graph: FusionGraph) -> None:
    """The shape of a transposed image: transpose the shape."""
    origin = _undone(node.inputs[0], graph, NHWC_TO_NCHW)
    if origin is None or node.attributes:
        return
    order = graph.constant(np.array(NHWC_TO_NCHW, dtype=np.int64), "order")
    shape = graph.add("Shape", [origin], before=node).outputs[0]
    permuted = graph.add("Gather", [shape, order], {"axis": 0}, before=node).outputs[0]
    graph.replace(node.outputs[0], permuted)


def _to_sequence(node: ir.Node, graph: FusionGraph) -> None:
    """(B, H, W, C) transposed to (B, C, H, W), joined to (B, C, HW) and transposed: join to (B, HW, C) alone."""
    if not is_transpose(node, (0, 2, 1)):
        return
    join = graph.producer(node.inputs[0], "Reshape")
    origin = None if join is None else _undone(join.inputs[0], graph, NHWC_TO_NCHW)
    shapes = graph.shapes.of(node.outputs[0])
    sources = None if origin is None else graph.shapes.of(origin)
    if origin is None or shapes is None or sources is None:
        return
    if any(shape != (s[0], s[1] * s[2], s[3]) for shape, s in zip(shapes, sources, strict=True)):
        return
    sizes = {shape[-1] for shape in shapes}
    if len(sizes) != 1:
        return
    shape = graph.constant(np.array([0, -1, sizes.pop()], dtype=np.int64), "shape")
    joined = graph.add("Reshape", [origin, shape], before=node, like=node.outputs[0])
    graph.replace(node.outputs[0], joined.outputs[0])


_MOVES: dict[str, Callable[[ir.Node, FusionGraph], None]] = {
    **dict.fromkeys(_EITHER, _either),
    "Concat": _concat,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Transpose": _to_sequence,
}
