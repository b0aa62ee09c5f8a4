"""One exported graph of somebody else: what its file says, without its weights."""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.core.errors import OnnxFolderError
from pytest_sdperf.core.files.disk import sha256_file
from pytest_sdperf.core.optimization import Optimization
from pytest_sdperf.fusing import graph
from pytest_sdperf.fusing.graph_kinds import quantized
from pytest_sdperf.fusing.graph_types import dtype_name

if TYPE_CHECKING:
    import onnx

DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class ExternalTensor:
    """An input or output of a graph, as its file declares it.

    Attributes:
        name: Its name.
        dtype: numpy dtype name.
        dims: Sizes; a text where the size is open.
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...]

    def __str__(self) -> str:
        """Say `sample float32 [2, 4, height, width]`."""
        return f"{self.name} {self.dtype} [{', '.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class ExternalGraph:
    """One component of an exported pipeline.

    Attributes:
        path: Its graph.
        data: Names of the files beside it that hold its weights, relative to its folder.
        inputs: What it takes, as far as any node reads it.
        outputs: What it returns.
        opset: ONNX opset that it declares.
        dtype: Dtype of its weights.
        counts: `domain::op_type` -> nodes.
        integers: Type of most of its weights of 8 bits or fewer, such as `int8`; empty if there are none.
    """

    path: Path
    data: tuple[str, ...]
    inputs: tuple[ExternalTensor, ...]
    outputs: tuple[ExternalTensor, ...]
    opset: int
    dtype: str
    counts: Mapping[str, int]
    integers: str = ""

    @property
    def quantized(self) -> str:
        """Say `int8: 24 DequantizeLinear`; empty for a graph without quantized numbers."""
        operators = quantized(self.counts)
        return f"{self.integers}: {operators}" if operators and self.integers else operators

    @property
    def shapes(self) -> str:
        """`static` if the file fixes the size of every input, else `dynamic`."""
        fixed = all(isinstance(size, int) for tensor in self.inputs for size in tensor.dims)
        return "static" if fixed else "dynamic"

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the content of its files; they are read once, in blocks."""
        files = {name: sha256_file(self.path.parent / name) for name in (self.path.name, *self.data)}
        return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()

    def optimizations(self, optimizations: Mapping[str, Optimization]) -> tuple[str, ...]:
        """Return the optimizations, lowest first, of which the graph holds an operator already.

        Args:
            optimizations: Every optimization by name.
        """
        ordered = sorted(optimizations.items(), key=lambda item: item[1].position)
        return tuple(
            name for name, optimization in ordered if any(self.counts.get(op) for op in optimization.operators)
        )


def parse(path: Path) -> onnx.ModelProto:
    """Read the graph of a model.

    Raises:
        OnnxFolderError: The file is not an ONNX model, or an empty one.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        proto = onnx.load(path, load_external_data=False)
    except (DecodeError, OSError) as error:
        why = f": {error.strerror}" if isinstance(error, OSError) else ""
        raise OnnxFolderError(
            f"{path} cannot be read as an ONNX model{why}. Export or fetch it again; a "
            f"file of Git LFS that was not fetched is a short text."
        ) from error
    if not proto.graph.node:
        raise OnnxFolderError(f"{path} holds no graph. Export it again.")
    return proto


def external_graph(path: Path, proto: onnx.ModelProto, data: Sequence[str]) -> ExternalGraph:
    """Return what a model says about itself.

    Args:
        path: Its file.
        proto: Its content.
        data: Names of the files that hold its weights.

    Raises:
        OnnxFolderError: Its weights have a dtype that nothing here computes in.
    """
    read = {name for node in graph.all_nodes(proto.graph) for name in node.input}
    read.update(value.name for value in proto.graph.output)
    initialized = {tensor.name for tensor in proto.graph.initializer}
    inputs = [_tensor(value) for value in proto.graph.input if value.name not in initialized and value.name in read]
    return ExternalGraph(
        path=path,
        data=tuple(data),
        inputs=tuple(inputs),
        outputs=tuple(map(_tensor, proto.graph.output)),
        opset=next((opset.version for opset in proto.opset_import if opset.domain in ("", "ai.onnx")), 0),
        dtype=_weights_dtype(path, proto, inputs),
        counts=dict(sorted(graph.count_model(proto).items())),
        integers=_integers(proto),
    )


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a model whose data is in another file."""
    import onnx

    for tensor in _tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    nodes = [*graph.all_nodes(proto.graph), *(node for function in proto.functions for node in function.node)]
    yield from proto.graph.initializer
    for sparse in proto.graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for part in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from part.initializer


def _tensor(value: onnx.ValueInfoProto) -> ExternalTensor:
    kind = value.type.tensor_type
    dims = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim)
    return ExternalTensor(value.name, dtype_name(kind.elem_type), dims)


def _integers(proto: onnx.ModelProto) -> str:
    elements: Counter[str] = Counter()
    for tensor in proto.graph.initializer:
        if (name := dtype_name(tensor.data_type)) in ("int8", "uint8", "int4", "uint4"):
            elements[name] += math.prod(tensor.dims)
    return max(elements, key=lambda name: elements[name], default="")


def _weights_dtype(path: Path, proto: onnx.ModelProto, inputs: Sequence[ExternalTensor]) -> str:
    """Return the dtype that most weights have; of a graph without weights, that of its first such input."""
    elements: Counter[str] = Counter()
    for tensor in proto.graph.initializer:
        elements[dtype_name(tensor.data_type)] += math.prod(tensor.dims)
    names = ("float32", "float16", "bfloat16", "float64")
    found = {name: elements[name] for name in names if elements[name]} or dict.fromkeys(
        (tensor.dtype for tensor in inputs if tensor.dtype in names), 1
    )
    dtype = max(found, key=lambda name: found[name], default="float32")
    if dtype not in DTYPES:
        raise OnnxFolderError(
            f"the weights of {path} are {dtype}. Supported: {', '.join(DTYPES)}. Export it in one of these."
        )
    return dtype
