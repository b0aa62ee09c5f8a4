"""Types of values that an exporter did not record (TorchScript records none), as the schemas of operators have them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

MICROSOFT = "com.microsoft"
NAMING = ("to", "dtype", "output_dtype", "output_datatype")
"""Attributes that name the type of the first output; 0 names none."""


@dataclass(frozen=True, slots=True)
class Formal:
    """An input or output of an operator: the letter that its type has in the schema, and what it may be."""

    letter: str
    types: frozenset[str]

    def takes(self, dtype: ir.DataType) -> bool:
        """Say whether a tensor of this type may stand here."""
        return f"tensor({_WORDS.get(dtype, dtype.name.lower())})" in self.types

    @property
    def only(self) -> ir.DataType | None:
        """The one type that a tensor must have here; None if there are several, or it is no tensor."""
        return _DTYPES.get(next(iter(self.types))) if len(self.types) == 1 else None


@dataclass(frozen=True, slots=True)
class Schema:
    """Inputs and outputs of an operator at one opset.

    Attributes:
        inputs, outputs: In order.
        default: The type that an output has where nothing else tells, or the index of an input that has it.
    """

    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    default: ir.DataType | int = 0

    def input(self, index: int) -> Formal | None:
        """Return an input; the last one may stand for several."""
        return self.inputs[min(index, len(self.inputs) - 1)] if self.inputs else None

    def output(self, index: int) -> Formal | None:
        """Return an output; the last one may stand for several."""
        return self.outputs[min(index, len(self.outputs) - 1)] if self.outputs else None


_WORDS: Mapping[ir.DataType, str] = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}
_DTYPES = {f"tensor({_WORDS.get(dtype, dtype.name.lower())})": dtype for dtype in ir.DataType if dtype}


def record(graph: ir.Graph, opset: int = 0) -> None:
    """Give a type to every value that has none, in the graphs within the graph as well (`opset`: of the one around)."""
    opset = graph.opset_imports.get("", opset)
    for value in graph.initializers.values():
        if value.dtype is None and value.const_value is not None:
            value.dtype = value.const_value.dtype
    for node in graph:
        for inner in _graphs(node):
            record(inner, opset)
        record_outputs(node, opset)


def record_outputs(node: ir.Node, opset: int = 0) -> None:
    """Give a type to every output of a node that has none."""
    for index, value in enumerate(node.outputs):
        if value.dtype is None and (dtype := result(node, index, opset=opset)) is not None:
            value.dtype = dtype


def result(node: ir.Node, index: int, *, opset: int = 0) -> ir.DataType | None:
    """Return the type of an output as it follows from the inputs and attributes of its node; None if nothing tells."""
    domain = node.domain
    if not domain and node.op_type in ("Constant", "ConstantOfShape"):
        return _held(node)
    if not domain and node.op_type in ("If", "Loop"):
        # The first result of a loop's body is its condition.
        results = _graphs(node)[0].outputs[int(node.op_type == "Loop") :]
        return results[index].dtype if index < len(results) else None
    schema = schema_of(node, opset=opset)
    formal = None if schema is None else schema.output(index)
    if schema is None or formal is None:
        return _of(node, 0) if domain == MICROSOFT and node.inputs else None
    return _named(node, index) or formal.only or _by_letter(node, formal, schema)


def schema_of(node: ir.Node, *, opset: int = 0) -> Schema | None:
    """Return the schema of a node's operator; None if nobody here knows one.

    Args:
        node: Of the main graph, which says its opset.
        opset: That of any other node.
    """
    declared = node.graph.opset_imports.get("", 0) if node.graph is not None else 0
    return schema_named(node.domain, node.op_type, opset=declared or opset)


def schema_named(domain: str, op_type: str, *, opset: int = 0) -> Schema | None:
    """Return the schema of an operator at an opset, by default the newest one; None if nobody here knows one."""
    if domain == MICROSOFT:
        return _of_microsoft().get(op_type)
    return None if domain else _of_onnx(op_type, opset or onnx.defs.onnx_opset_version())


def _graphs(node: ir.Node) -> list[ir.Graph]:
    held = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            held.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS:
            held.extend(attribute.as_graphs())
    return held


def _of(node: ir.Node, index: int) -> ir.DataType | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else value.dtype


def _named(node: ir.Node, index: int) -> ir.DataType | None:
    """Return the type that an attribute names for the first output."""
    names = [name for name in NAMING if name in node.attributes] if index == 0 and not node.domain else []
    number = node.attributes[names[0]].as_int() if names else 0
    return ir.DataType(number) if number else None


def _by_letter(node: ir.Node, formal: Formal, schema: Schema) -> ir.DataType | None:
    """Return the type of the inputs whose type has the same letter; where there are none, what is so by default."""
    formals = [(index, schema.input(index)) for index, value in enumerate(node.inputs) if value is not None]
    alike = [index for index, given in formals if given is not None and given.letter == formal.letter]
    found = [_of(node, index) for index in alike]
    if not alike:
        found = [schema.default if isinstance(schema.default, ir.DataType) else _of(node, schema.default)]
    return next((dtype for dtype in found if dtype is not None and formal.takes(dtype)), None)


@functools.cache
def _of_onnx(op_type: str, opset: int) -> Schema | None:
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    return _schema(schema, lambda formal: formal.type_str)


@functools.cache
def _of_microsoft() -> Mapping[str, Schema]:
    """Return the schemas of ONNX Runtime's own operators; none where it is not installed."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        return {}
    found = (schema for schema in state.get_all_operator_schema() if schema.domain == MICROSOFT)
    return {schema.name: _schema(schema, lambda formal: formal.typeStr) for schema in found}


def _schema(schema: Any, letter: Callable[[Any], str]) -> Schema:
    """Return what is used of a schema, from that of onnx or the one of onnxruntime."""
    inputs, outputs = (
        tuple(Formal(letter(formal), frozenset(formal.types)) for formal in formals)
        for formals in (schema.inputs, schema.outputs)
    )
    return Schema(inputs, outputs, _DEFAULTS.get(schema.name, 0))


# What an output is where neither an input nor an attribute says it.
_DEFAULTS: Mapping[str, ir.DataType | int] = {
    "DequantizeLinear": 1,
    "LayerNormalization": ir.DataType.FLOAT,  # its mean and its deviation
    "Multinomial": ir.DataType.INT32,
    "QuantizeLinear": ir.DataType.UINT8,
    "RandomNormal": ir.DataType.FLOAT,
    "RandomUniform": ir.DataType.FLOAT,
}


def _held(node: ir.Node) -> ir.DataType:
    """Return the type of what a Constant or ConstantOfShape holds."""
    value = node.attributes.get("value")
    if value is not None:
        return value.as_tensor().dtype
    return ir.DataType.INT64 if "value_int" in node.attributes or "value_ints" in node.attributes else ir.DataType.FLOAT
