"""A graph that is being fused: looking around in it, and changing it without losing shapes, types or module paths."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing import dtypes
from pytest_sdperf.fusing.evaluation import Array, distinct
from pytest_sdperf.fusing.shapes import Shapes

MICROSOFT = "com.microsoft"
SCOPES = "pkg.torch.onnx.name_scopes"


class FusionGraph:
    """The main graph of a model, with what is known about its values.

    Attributes:
        model: The model.
        graph: Its main graph.
        shapes: Shapes and constants of the values.
    """

    def __init__(self, model: ir.Model) -> None:
        dtypes.record(model.graph)
        self.model = model
        self.graph = model.graph
        self.shapes = Shapes(model.graph)
        self._outputs = set(model.graph.outputs)
        self._numbers = itertools.count()
        self._fixed = _independent(model.graph)

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

    def user(self, value: ir.Value, *op_types: str, domain: str = "") -> ir.Node | None:
        """Return the one node that reads a value, if nothing else does and it is of one of these types."""
        users = self.users(value)
        if len(users) != 1 or value in self._outputs:
            return None
        return users[0] if users[0].op_type in op_types and users[0].domain == domain else None

    def reader(self, value: ir.Value, *op_types: str) -> ir.Node | None:
        """Return the one node of ONNX that reads what a value holds: others may read its shape."""
        users = [node for node in self.users(value) if node.op_type != "Shape"]
        if len(users) != 1 or value in self._outputs:
            return None
        return users[0] if users[0].op_type in op_types and not users[0].domain else None

    def is_output(self, value: ir.Value) -> bool:
        """Say whether a value is an output of the graph."""
        return value in self._outputs

    def is_weight(self, value: ir.Value | None, rank: int | None = None) -> bool:
        """Say whether a value is an initializer (of this rank)."""
        if value is None or not value.is_initializer() or value.const_value is None:
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
        return first if array.size == 1 or bool(np.all(array == first)) else None

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
            like: A value whose type and shape the first output has; without it the shape is inferred.
        """
        name = f"sdperf_{next(self._numbers)}_{op_type}"
        node = ir.node(op_type, inputs, attributes, domain=domain, num_outputs=outputs, name=name)
        for index, value in enumerate(node.outputs):
            value.name = name if index == 0 else f"{name}_{index}"
        if SCOPES in before.metadata_props:
            node.metadata_props[SCOPES] = before.metadata_props[SCOPES]
        node.metadata_props["sdperf.path"] = path_of(before)
        self.graph.insert_before(before, node)
        if all(value is None or self.is_fixed(value) for value in inputs):
            self._fixed.update(node.outputs)
        first = node.outputs[0]
        model = like if like is not None else next((value for value in inputs if value is not None), None)
        if model is not None:
            first.dtype = model.dtype
        if like is not None:
            self.shapes.copy(like, first)
            first.shape = like.shape
        else:
            self.shapes.infer(node)
        if domain:
            self.graph.opset_imports.setdefault(domain, 1)
        return node

    def adopt(self, value: ir.Value, like: ir.Value) -> None:
        """Give a further output of a new node the type and shape of the value that it takes the place of."""
        value.dtype, value.shape = like.dtype, like.shape
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
            suffix: Of the new name.
            shape: Of the new initializer.
            change: Contents of `source` and `others` -> contents.
            others: Further initializers, of the same type.
            dtype: Of the new one; that of `source` if None.
        """
        name = f"{source.name}.{suffix}"
        if name in self.graph.initializers and not others:
            return self.graph.initializers[name]
        tensors = [value.const_value for value in (source, *others)]
        own = source.const_value.dtype if source.const_value is not None else ir.DataType.FLOAT
        wanted = dtype or own

        def compute() -> ir.TensorProtocol:
            array = change(*(tensor.numpy() for tensor in tensors if tensor is not None))
            if wanted != own:
                array = array.astype(wanted.numpy())
            return ir.Tensor(np.ascontiguousarray(array), dtype=wanted, shape=ir.Shape(shape))

        tensor = ir.LazyTensor(compute, dtype=wanted, shape=ir.Shape(shape), name=name)
        return self.initializer(name, tensor)

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """Add an initializer; a name that is taken gets a number."""
        unique = name
        while unique in self.graph.initializers:
            unique = f"{name}_{next(self._numbers)}"
        value = ir.Value(name=unique, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        self.graph.register_initializer(value)
        self.shapes.read(value)
        return value

    def constant(self, array: Array, name: str) -> ir.Value:
        """Add a small constant, or find an equal one."""
        digest = "_".join(str(item) for item in array.reshape(-1).tolist()[:8])
        full = f"sdperf_{name}_{array.dtype}_{'x'.join(map(str, array.shape))}_{digest}"
        if array.size <= 8 and full in self.graph.initializers:
            return self.graph.initializers[full]
        return self.initializer(full, ir.tensor(array, name=full))

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let every reader of a value read another one, and remove what nobody reads any more."""
        if old in self._outputs:
            # The name of an output is part of the model's interface.
            self._outputs.discard(old)
            self._outputs.add(new)
            name, old.name = old.name, f"{old.name}_replaced"
            new.name = name
            new.shape = new.shape or old.shape
            new.dtype = new.dtype or old.dtype
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


def path_of(node: ir.Node) -> str:
    """Return the path of the torch module that a node comes from; empty if the exporter did not say.

    The dynamo exporter lists scopes in a property; the TorchScript exporter names nodes `/down_blocks.0/norm1/Mul`.
    """
    if "sdperf.path" in node.metadata_props:
        return node.metadata_props["sdperf.path"]
    text = node.metadata_props.get(SCOPES)
    if text:
        scopes = ast.literal_eval(text)
        return str(scopes[-2]) if len(scopes) > 1 else ""
    name = node.name or ""
    return ".".join(name.split("/")[1:-1]) if name.startswith("/") else ""


def _independent(graph: ir.Graph) -> set[ir.Value]:
    """Return the values that do not depend on what the inputs hold, in one walk."""
    found: set[ir.Value] = set()

    def sources(node: ir.Node) -> Iterator[ir.Value]:
        return (value for value in node.inputs if value is not None)

    for node in graph:
        if node.op_type == "Shape" or all(value in found or value.is_initializer() for value in sources(node)):
            found.update(node.outputs)
    return found
