"""Chains of Reshape and Transpose, followed exactly: how a sequence is split into heads and put together again."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Refused
from pytest_sdperf.fusing.fusion_graph import FusionGraph
from pytest_sdperf.fusing.shapes import Shape

# Every axis of a tensor is a list of parts: names of the axes that a sequence has once its heads are split.
Axes = list[list[str]]
Sizes = dict[str, int]

_MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity")


def climb(value: ir.Value, graph: FusionGraph) -> tuple[list[ir.Node], float]:
    """Follow a value upwards through moves and constant factors.

    Returns:
        The moves from the lowest to the highest, and the product of the factors.
    """
    moves: list[ir.Node] = []
    factor = 1.0
    while (node := value.producer()) is not None and node.domain == "":
        if node.op_type in _MOVES:
            moves.append(node)
            source = node.inputs[0]
        elif node.op_type in ("Mul", "Div"):
            source, number = _scaled(node, graph)
            if number is None or source is None:
                break
            factor *= number
        else:
            break
        assert source is not None
        value = source
    return moves, factor


def _scaled(node: ir.Node, graph: FusionGraph) -> tuple[ir.Value | None, float | None]:
    first, second = node.inputs
    number = graph.scalar(second)
    if number is not None:
        return first, (number if node.op_type == "Mul" else 1 / number if number else None)
    return (second, graph.scalar(first)) if node.op_type == "Mul" else (None, None)


def source_of(value: ir.Value, wanted: Sequence[str], graph: FusionGraph) -> tuple[ir.Value, float, Sizes]:
    """Find the sequence (B, S, heads x size) from which a value is split into heads.

    Args:
        value: An operand of a matrix product of an attention: rank 4, or 3 with batch and heads in one axis.
        wanted: Order of the parts `b` (batch), `n` (heads), `s` (sequence), `h` (head size), such as `bnsh`.
        graph: The graph.

    Returns:
        The sequence, the product of constant factors on the way, and `n` and `h`.

    Raises:
        Refused: There is no such sequence.
    """
    moves, factor = climb(value, graph)
    if not moves:
        raise Refused("its operand is not split into heads by Reshape and Transpose", value.producer())
    shapes = graph.shapes.of(value)
    stop = moves[-1]
    for end in range(len(moves), 0, -1):
        source = moves[end - 1].inputs[0]
        assert source is not None
        sizes = _sizes(graph.shapes.of(source), shapes, wanted)
        if sizes is None:
            continue
        stop = moves[end - 1]
        chain = list(reversed(moves[:end]))
        if all(_arrives(chain, parts, index, wanted, graph) for index, parts in enumerate(sizes)):
            fixed = {"n": sizes[0]["n"], "h": sizes[0]["h"]}
            if any((parts["n"], parts["h"]) != (fixed["n"], fixed["h"]) for parts in sizes):
                raise Refused("number or size of its heads depends on the shape of an input", stop)
            return source, factor, fixed
    raise Refused(f"its operand does not become ({', '.join(wanted)}) by splitting (b, s, n x h)", stop)


def _sizes(
    sources: Sequence[Shape] | None, targets: Sequence[Shape] | None, wanted: Sequence[str]
) -> list[Sizes] | None:
    """Return the sizes of the parts at each choice of open sizes; None if the source cannot be such a sequence."""
    found = []
    for source, target in zip(sources or (), targets or (), strict=False):
        if len(source) != 3 or len(target) not in (3, 4):
            return None
        batch, length, width = source
        at = wanted.index("h") - (4 - len(target))
        size = target[at]
        if not size or width % size:
            return None
        found.append({"b": batch, "s": length, "n": width // size, "h": size})
    return found or None


def _arrives(chain: Sequence[ir.Node], sizes: Sizes, index: int, wanted: Sequence[str], graph: FusionGraph) -> bool:
    axes: Axes | None = [["b"], ["s"], ["n", "h"]]
    for node in chain:
        shapes = graph.shapes.of(node.outputs[0])
        axes = None if axes is None or shapes is None else move(node, axes, sizes, shapes[index])
    if axes is None:
        return False
    rank = len(axes)
    goal = [[part] for part in wanted] if rank == 4 else [[wanted[0], wanted[1]], [wanted[2]], [wanted[3]]]
    return _real(axes, sizes) == _real(goal, sizes)


def move(node: ir.Node, axes: Axes, sizes: Sizes, shape: Shape) -> Axes | None:
    """Return the axes after a move; None if it cuts a part in two."""
    if node.op_type == "Identity":
        return axes
    if node.op_type == "Transpose":
        perm = node.attributes["perm"].as_ints()
        return [axes[axis] for axis in perm]
    parts = [part for axis in axes for part in axis if sizes[part] != 1]
    moved: Axes = []
    for size in shape:
        group: list[str] = []
        while size != 1 and parts and size % sizes[parts[0]] == 0:
            part = parts.pop(0)
            group.append(part)
            size //= sizes[part]
        if size != 1:
            return None
        moved.append(group)
    return None if parts else moved


def _real(axes: Axes, sizes: Sizes) -> Axes:
    """Leave out parts of size 1: it does not matter where they are."""
    return [[part for part in axis if sizes[part] != 1] for axis in axes]


def merged(value: ir.Value, heads: int, graph: FusionGraph) -> ir.Value:
    """Follow the result (b, n, s, h) of an attention downwards to the sequence (B, S, heads x size).

    Raises:
        Refused: It is not put together that way, or read by others on the way.
    """
    shapes = graph.shapes.of(value)
    if shapes is None:
        raise Refused("the shape of its result is not known", value.producer())
    states = []
    for shape in shapes:
        batch = shape[0] if len(shape) == 4 else shape[0] // heads
        sizes = {"b": batch, "n": heads, "s": shape[-2], "h": shape[-1]}
        axes: Axes = [["b"], ["n"], ["s"], ["h"]] if len(shape) == 4 else [["b", "n"], ["s"], ["h"]]
        states.append((axes, sizes))
    # Dynamic exports read the shapes of what is replaced, to compute shapes that are replaced with it.
    while (node := graph.reader(value, *_MOVES)) is not None:
        value = node.outputs[0]
        after = graph.shapes.of(value)
        if after is None:
            raise Refused("the shape of its result is not known", node)
        moved = [move(node, axes, sizes, shape) for (axes, sizes), shape in zip(states, after, strict=True)]
        if any(axes is None for axes in moved):
            raise Refused("its result is cut differently from its heads", node)
        states = [(axes, sizes) for axes, (_, sizes) in zip(moved, states, strict=True) if axes is not None]
        goal: Axes = [["b"], ["s"], ["n", "h"]]
        if all(len(axes) == 3 and _real(axes, sizes) == _real(goal, sizes) for axes, sizes in states):
            return value
    raise Refused("its result is not put together to (b, s, n x h) by Transpose and Reshape", value.producer())
