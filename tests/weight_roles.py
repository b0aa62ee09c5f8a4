"""Which initializers of a graph are weights of the network, and which are part of its structure.

Told by the ops that use them: exporters fold, merge and rename parameters, so names say nothing.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator
from types import MappingProxyType

import onnx_ir as ir

Shape = tuple[int, ...]


class Role(enum.Enum):
    """What a weight is to the op that uses it."""

    MATRIX = "matrix"
    TABLE = "table"  # rows of a Gather; a summand with more than one axis, such as position embeddings
    SCALE = "scale"  # of a norm
    SHIFT = "shift"  # of a norm
    BIAS = "bias"


@dataclasses.dataclass(frozen=True)
class Use:
    """How an op uses a weight.

    Attributes:
        role: What the weight is there.
        fan_in: For a matrix, the number of products that are summed up to one element of the output.
    """

    role: Role
    fan_in: int = 1


_SLOTS = MappingProxyType(
    {
        ("Conv", 1): Role.MATRIX,
        ("Conv", 2): Role.BIAS,
        ("ConvTranspose", 1): Role.MATRIX,
        ("ConvTranspose", 2): Role.BIAS,
        ("Gather", 0): Role.TABLE,
        ("Gemm", 0): Role.MATRIX,
        ("Gemm", 1): Role.MATRIX,
        ("Gemm", 2): Role.BIAS,
        ("GroupNormalization", 1): Role.SCALE,
        ("GroupNormalization", 2): Role.SHIFT,
        ("InstanceNormalization", 1): Role.SCALE,
        ("InstanceNormalization", 2): Role.SHIFT,
        ("LayerNormalization", 1): Role.SCALE,
        ("LayerNormalization", 2): Role.SHIFT,
        ("MatMul", 0): Role.MATRIX,
        ("MatMul", 1): Role.MATRIX,
    }
)
_MOVING = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def weight_use(value: ir.Value) -> Use | None:
    """Return how an initializer is used as a weight; None if one of its uses is something else, or if it has none.

    Ops that only move its elements are looked through. Ops of other domains than ONNX's own are never understood.
    """
    tensor = value.const_value
    uses = list(_uses(value, tuple(tensor.shape.numpy()) if tensor is not None else ()))
    return None if None in uses or not uses else uses[0]


def _uses(value: ir.Value, shape: Shape) -> Iterator[Use | None]:
    if value.is_graph_output():
        yield None
    for node, slot in value.uses():
        if node.domain not in {"", "ai.onnx"}:
            yield None
        elif node.op_type in _MOVING and slot == 0:
            yield from _uses(node.outputs[0], _moved(node, shape))
        else:
            role = _role(node, slot, shape)
            yield Use(role, _fan_in(node, slot, shape) if role is Role.MATRIX else 1) if role else None


def _moved(node: ir.Node, shape: Shape) -> Shape:
    """Return the shape after an op that moves elements; the shape before it where no file tells."""
    if node.op_type == "Transpose":
        order = node.attributes.get_ints("perm", tuple(reversed(range(len(shape)))))
        return tuple(shape[axis] for axis in order)
    known = node.outputs[0].shape
    return tuple(known.numpy()) if known is not None and known.is_static() else shape


def _role(node: ir.Node, slot: int, shape: Shape) -> Role | None:
    if node.op_type == "Add":
        if sum(size > 1 for size in shape) > 1:
            return Role.TABLE
        return Role.SHIFT if _is_scaling(node.inputs[1 - slot]) else Role.BIAS
    if node.op_type == "Mul":
        return Role.SCALE if _is_shifted(node.outputs[0]) else None
    return _SLOTS.get((node.op_type, slot))


def _is_scaling(value: ir.Value | None) -> bool:
    """Say whether a value is a product with an initializer of more than one element."""
    value = _before_moving(value)
    node = value.producer() if value is not None else None
    return node is not None and node.op_type == "Mul" and any(map(_is_parameter, node.inputs))


def _is_shifted(value: ir.Value) -> bool:
    """Say whether initializers are added to a value, as a norm that was split up does, and nothing else is done."""
    nodes = [node for node, _ in value.uses()]
    while len(nodes) == 1 and nodes[0].op_type in _MOVING:
        nodes = [node for node, _ in nodes[0].outputs[0].uses()]
    return bool(nodes) and all(node.op_type == "Add" and any(map(_is_parameter, node.inputs)) for node in nodes)


def _is_parameter(value: ir.Value | None) -> bool:
    value = _before_moving(value)
    return value is not None and value.is_initializer() and value.const_value is not None and value.const_value.size > 1


def _before_moving(value: ir.Value | None) -> ir.Value | None:
    while value is not None and (node := value.producer()) is not None and node.op_type in _MOVING:
        value = node.inputs[0]
    return value


def _fan_in(node: ir.Node, slot: int, shape: Shape) -> int:
    if node.op_type == "Conv":
        return math.prod(shape[1:])
    if node.op_type == "ConvTranspose":
        return shape[0] * math.prod(shape[2:])
    turned = node.op_type == "Gemm" and bool(node.attributes.get_int("transB" if slot else "transA", 0))
    summed = -1 if bool(slot) == turned else -2
    return shape[summed] if len(shape) > 1 else math.prod(shape)
