"""A graph that is being fused: looking around in it, and changing it without losing shapes, types or module paths."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing import node_types
from pytest_sdperf.fusing.contents import Array, distinct
from pytest_sdperf.fusing.derived import derive
from pytest_sdperf.fusing.shapes import Shapes

MICROSOFT = "com.microsoft"
SCOPES = "pkg.torch.onnx.name_scopes"
PATH = "sdperf.path"

_RANDOM = frozenset({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"})
GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
"""Types of attributes that hold a graph: a node that has one depends on more than its inputs."""


class FusionGraph:
    """The main graph of a model, with what is known about its values.

    Attributes:
        model: The model.
        graph: Its main graph.
        shapes: Shapes and constants of the values.
    """

    def __init__(self, model: ir.Model) -> None:
        node_types.record(model.graph)
        self.model = model
        self.graph = model.graph
        self.shapes = Shapes(model.graph)
        self._outputs = set(model.graph.outputs)
        self._fixed = _independent(model.graph)
        self._derived: dict[tuple[object, ...], ir.Value] = {}
        self._numbers = itertools.count()
        # A graph that was fused before holds such names already.
        self._names = {value.name for node in model.graph for value in node.outputs}
        self._names.update(value.name for value in model.graph.inputs)

    # ------------------------------------------------------------------------------------------- looking around

    def nodes(self, *op_types: str, domain: str = "") -> list[ir.Node]:
        """Return the nodes of these types, in the order of the graph."""
        return [node for node in self.graph if node.op_type in op_types and node.domain == domain]

    def producer(self, value: ir.Value | None, *op_types: str, domain: str = "") -> ir.Node | None:
        """Return the node that computes a value, if it is of one of these types (any if none is named)."""
        node = None if value is None else value.producer()
        if node is None or (op_types and (node.op_type not in op_types or node.domain != domain)):
            return None
        return node

    def users(self, value: ir.Value) -> list[ir.Node]:
        """Return the nodes that read a value, each once."""
        return list(dict.fromkeys(use.node for use in value.uses()))

    def user(self, value: ir.Value, *op_types: str) -> ir.Node | None:
        """Return the one node that reads a value, if nothing else does and it is of one of these types of ONNX."""
        return self._single(self.users(value), value, op_types)

    def reader(self, value: ir.Value, *op_types: str) -> ir.Node | None:
        """Return the one node of ONNX that reads what a value holds: others may read its shape."""
        return self._single([node for node in self.users(value) if node.op_type != "Shape"], value, op_types)

    def _single(self, users: Sequence[ir.Node], value: ir.Value, op_types: Sequence[str]) -> ir.Node | None:
        if len(users) != 1 or value in self._outputs:
            return None
        return users[0] if users[0].op_type in op_types and not users[0].domain else None

    def is_output(self, value: ir.Value) -> bool:
        """Say whether a value is an output of the graph."""
        return value in self._outputs

    def is_weight(self, value: ir.Value | None, rank: int | None = None) -> bool:
        """Say whether a value is an initializer (of this rank) that a caller cannot override."""
        if value is None or not value.is_initializer() or value.const_value is None or value.is_graph_input():
            return False
        return rank is None or len(value.const_value.shape) == rank

    def is_fixed(self, value: ir.Value) -> bool:
        """Say whether a value is the same for all inputs of the same shapes: a weight, or computed from weights."""
        return value in self._fixed or self.is_weight(value)

    def scalar(self, value: ir.Value | None) -> float | None:
        """Return the one number that a value holds, however many elements it has; None if it is no such constant."""
        array = None if value is None else self.shapes.constant(value)
        if array is None or array.size == 0 or not np.issubdtype(array.dtype, np.number):
            return None
        array = distinct(array)
        first = float(array.flat[0])
        return first if bool(np.all(array == first)) else None

    def other(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """Return the other operand of a node with two."""
        first, second = node.inputs
        assert first is not None
        assert second is not None
        return second if first is value else first

    # ------------------------------------------------------------------------------------------------- changing

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        before: ir.Node,
        domain: str = "",
        outputs: int = 1,
        like: ir.Value | None = None,
    ) -> ir.Node:
        """Insert a node.

        Args:
            op_type: Its type.
            inputs: What it reads; None leaves an optional one out.
            attributes: Its attributes.
            before: Where; the module path is taken from there.
            domain: Empty for ONNX itself.
            outputs: How many it has.
            like: A value whose type and shape the first output has; without it both follow from the inputs.
        """
        node = self._node(op_type, inputs, attributes, before=before, domain=domain, outputs=outputs)
        self.graph.insert_before(before, node)
        if domain:
            self.graph.opset_imports.setdefault(domain, 1)
        if all(value is None or self.is_fixed(value) for value in inputs):
            self._fixed.update(node.outputs)
        if like is not None:
            self.import_graph(node.outputs[0], like)
        else:
            node_types.record_outputs(node)
            self.shapes.infer(node)
        return node

    def _node(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None, *,
        before: ir.Node, domain: str, outputs: int,
    ) -> ir.Node:  # fmt: skip
        """Return a node of the module of another one, both as dynamo and as TorchScript tell it."""
        name = self._unused(f"sdperf_{op_type}", numbered=True)
        folder, slash, _ = (before.name or "").rpartition("/")
        whole = f"{folder}{slash}{name}" if folder.startswith("/") else name
        node = ir.node(op_type, inputs, attributes, domain=domain, num_outputs=outputs, name=whole)
        for index, value in enumerate(node.outputs):
            value.name = name if index == 0 else f"{name}_{index}"
        if SCOPES in before.metadata_props:
            node.metadata_props[SCOPES] = before.metadata_props[SCOPES]
        node.metadata_props[PATH] = path_of(before)
        return node

    def import_graph(self, value: ir.Value, like: ir.Value) -> None:
        """Give a new value the type and shape of the one that it takes the place of."""
        if like.dtype is not None:
            value.dtype = like.dtype
        value.shape = like.shape
        self.shapes.copy(like, value)

    def weight(
        self,
        source: ir.Value,
        suffix: str,
        shape: Sequence[int],
        change: Callable[..., Array],
        *others: ir.Value,
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        """Add an initializer computed from others when the model is saved; none is computed twice.

        Args:
            source: An initializer; type and name come from it.
            suffix: Of the new name; says what `change` does.
            shape: Of the new initializer.
            change: Contents of `source` and `others` -> contents.
            others: Further initializers, of the same type.
            dtype: Of the new one; that of `source` if None.
        """
        key = (suffix, *shape, dtype, source, *others)
        if key not in self._derived:
            tensors = [value.const_value for value in (source, *others) if value.const_value is not None]
            name = self._unused(f"{source.name}.{suffix}")
            tensor = derive(tensors, change, ir.Shape(shape), dtype=dtype or tensors[0].dtype, name=name)
            self._derived[key] = value = self._initializer(tensor, name)
            self.shapes.put(value, tuple(shape))
        return self._derived[key]

    def constant(self, array: Array, name: str) -> ir.Value:
        """Add a small constant, or find an equal one."""
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self._derived:
            unused = self._unused(f"sdperf_{name}", numbered=True)
            self._derived[key] = value = self._initializer(ir.tensor(array, name=unused), unused)
            self.shapes.read(value)
        return self._derived[key]

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let every reader of a value read another one, and remove what nobody reads any more."""
        if old in self._outputs:
            new = self._as_output(old, new)
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        self.discard(old.producer())

    def discard(self, node: ir.Node | None) -> None:
        """Remove a node that nobody reads, and then what it alone has read."""
        waiting = [node]
        while waiting:
            last = waiting.pop()
            if last is None or last.graph is None or any(v.uses() or v in self._outputs for v in last.outputs):
                continue
            sources = [value.producer() for value in last.inputs if value is not None]
            self.graph.remove(last, safe=True)
            waiting.extend(sources)

    def record_shapes(self) -> None:
        """Write down the shapes of values of which the graph says none, or a wrong one; an open size has no name."""
        for node in self.graph:
            for value in node.outputs:
                shape = self.shapes.fixed(value)
                if shape is not None and (value.shape is None or _contradict(value.shape, shape)):
                    value.shape = ir.Shape(shape)

    def _as_output(self, old: ir.Value, new: ir.Value) -> ir.Value:
        """Give a value the name of an output, which is part of the model's interface."""
        if new in self._outputs or new.producer() is None:
            # It has a name of its own that must stay: it is an input, a weight or another output.
            before = old.producer()
            assert before is not None
            new = self.add("Identity", [new], before=before, like=old).outputs[0]
        self._outputs.discard(old)
        self._outputs.add(new)
        name, old.name = old.name, self._unused(f"{old.name}_replaced")
        new.name = name
        new.shape = new.shape or old.shape
        if new.dtype is None and old.dtype is not None:
            new.dtype = old.dtype
        return new

    def _initializer(self, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        shape = ir.Shape(tensor.shape.numpy())
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
        self.graph.register_initializer(value)
        return value

    def _unused(self, stem: str, *, numbered: bool = False) -> str:
        """Return a name that no value has: the stem, with a number if it must or is to have one."""
        name = f"{stem}_{next(self._numbers)}" if numbered else stem
        while name in self._names or name in self.graph.initializers:
            name = f"{stem}_{next(self._numbers)}"
        self._names.add(name)
        return name


def path_of(node: ir.Node) -> str:
    """Return the path of the torch module that a node comes from; empty if the exporter did not say.

    The dynamo exporter lists scopes in a property; the TorchScript exporter names nodes `/down_blocks.0/norm1/Mul`.
    """
    if PATH in node.metadata_props:
        return node.metadata_props[PATH]
    text = node.metadata_props.get(SCOPES)
    if text:
        scopes = ast.literal_eval(text)
        return str(scopes[-2]) if len(scopes) > 1 else ""
    name = node.name or ""
    return ".".join(name.split("/")[1:-1]) if name.startswith("/") else ""


def _independent(graph: ir.Graph) -> set[ir.Value]:
    """Return the values that do not depend on what the inputs hold, in one walk."""
    found: set[ir.Value] = set()
    for node in graph:
        if node.op_type in _RANDOM or any(attribute.type in GRAPHS for attribute in node.attributes.values()):
            continue
        sources = [value for value in node.inputs if value is not None]
        if node.op_type == "Shape" or all(_given(value) or value in found for value in sources):
            found.update(node.outputs)
    return found


def _contradict(said: ir.Shape, found: Sequence[int | None]) -> bool:
    """Say whether a shape that a graph says cannot be the one that was worked out."""
    if len(said) != len(found):
        return True
    return any(
        isinstance(one, int) and other is not None and one != other for one, other in zip(said, found, strict=True)
    )


def _given(value: ir.Value) -> bool:
    return value.is_initializer() and not value.is_graph_input()
