"""Chains of Reshape and Transpose, followed exactly: how a sequence is split into heads and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import RefusalError
from pytest_sdperf.fusing.fusion_graph import FusionGraph
from pytest_sdperf.fusing.shapes import Shape

# Every axis of a tensor is a list of parts: names of the axes that a sequence has once its heads are split.
Axes = list[list[str]]
Sizes = dict[str, int]

_MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity")


@dataclass(frozen=True)
class MovedValue:
    """A value from which another one is computed by moves and constant factors.

    Attributes:
        value: The value.
        moves: The moves from it downwards.
        factor: The product of the factors on the way.
    """

    value: ir.Value
    moves: tuple[ir.Node, ...] = ()
    factor: float = 1.0


def climb(value: ir.Value, graph: FusionGraph) -> list[MovedValue]:
    """Follow a value upwards through moves and constant factors; return what is passed, the lowest first."""
    step = MovedValue(value)
    steps = [step]
    while (node := graph.producer(step.value, *_MOVES, "Mul", "Div")) is not None:
        if node.op_type in _MOVES:
            source, number = node.inputs[0], 1.0
            moves = (node, *step.moves)
        else:
            source, scaled = _scaled(node, graph)
            if source is None or scaled is None or not graph.shapes.same(source, step.value):
                break
            number, moves = scaled, step.moves
        assert source is not None
        step = MovedValue(source, moves, step.factor * number)
        steps.append(step)
    return steps


def _scaled(node: ir.Node, graph: FusionGraph) -> tuple[ir.Value | None, float | None]:
    """Return the operand that a product or quotient scales, and the factor."""
    first, second = node.inputs
    number = graph.scalar(second)
    if node.op_type == "Div":
        return first, 1 / number if number else None
    return (first, number) if number is not None else (second, graph.scalar(first))


def source_of(value: ir.Value, wanted: Sequence[str], graph: FusionGraph) -> tuple[ir.Value, float, Sizes]:
    """Find the sequence (B, S, heads x size) from which a value is split into heads.

    Args:
        value: An operand of a matrix product of an attention: rank 4, or 3 with batch and heads in one axis.
        wanted: Order of the parts `b` (batch), `n` (heads), `s` (sequence), `h` (head size), such as `bnsh`.
        graph: The graph.

    Returns:
        The sequence, the product of constant factors on the way, and `n` and `h`.

    Raises:
        RefusalError: There is no such sequence.
    """
    steps = [step for step in climb(value, graph) if step.moves]
    if not steps:
        raise RefusalError("its operand is not split into heads by Reshape and Transpose", value.producer())
    stop = steps[-1].moves[0]
    for step in reversed(steps):
        sizes = _sizes(graph.shapes.of(step.value), graph.shapes.of(value), wanted)
        if sizes is None:
            continue
        stop = step.moves[0]
        if all(_arrives(step.moves, parts, index, wanted, graph) for index, parts in enumerate(sizes)):
            heads = {"n": sizes[0]["n"], "h": sizes[0]["h"]}
            if any((parts["n"], parts["h"]) != (heads["n"], heads["h"]) for parts in sizes):
                raise RefusalError("number or size of its heads depends on the shape of an input", stop)
            return step.value, step.factor, heads
    raise RefusalError(f"its operand does not become ({', '.join(wanted)}) by splitting (b, s, n x h)", stop)


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
    """Say whether moves turn the axes of a sequence into the wanted ones, at one choice of open sizes."""
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
    """Return the axes after a move to a shape; None if it cuts a part in two."""
    if node.op_type == "Identity":
        return axes
    if node.op_type == "Transpose":
        perm = node.attributes["perm"].as_ints() if "perm" in node.attributes else range(len(axes))[::-1]
        return [axes[axis] for axis in perm]
    parts = [part for axis in axes for part in axis if sizes[part] != 1]
    moved: Axes = []
    for size in shape:
        group: list[str] = []
        rest = size
        while rest != 1 and parts and rest % sizes[parts[0]] == 0:
            rest //= sizes[parts[0]]
            group.append(parts.pop(0))
        if rest != 1:
            return None
        moved.append(group)
    return None if parts else moved


def _real(axes: Axes, sizes: Sizes) -> Axes:
    """Leave out parts of size 1: it does not matter where they are."""
    return [[part for part in axis if sizes[part] != 1] for axis in axes]


def merged(value: ir.Value, heads: int, graph: FusionGraph) -> ir.Value:
    """Follow the result (b, n, s, h) of an attention downwards to the sequence (B, S, heads x size).

    Raises:
        RefusalError: It is not put together that way, or read by others on the way.
    """
    shapes = graph.shapes.of(value)
    assert shapes is not None
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
            raise RefusalError("the shape of its result is not known", node)
        moved = [move(node, axes, sizes, shape) for (axes, sizes), shape in zip(states, after, strict=True)]
        if any(axes is None for axes in moved):
            raise RefusalError("its result is cut differently from its heads", node)
        states = [(axes, sizes) for axes, (_, sizes) in zip(moved, states, strict=True) if axes is not None]
        goal: Axes = [["b"], ["s"], ["n", "h"]]
        if all(len(axes) == 3 and _real(axes, sizes) == _real(goal, sizes) for axes, sizes in states):
            return value
    raise RefusalError("its result is not put together to (b, s, n x h) by Transpose and Reshape", value.producer())
