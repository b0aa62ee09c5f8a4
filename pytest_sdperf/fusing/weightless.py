"""Weights without data, in graphs whose structure alone matters.

A weight without data is an external tensor whose location names no file. It keeps name, type and shape, a protobuf
stores it, and reading it raises FileNotFoundError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from pytest_sdperf.fusing.graph import NOT_STORED


def without_data(tensor: ir.TensorProtocol, name: str) -> ir.ExternalTensor:
    """Return a weight of the same type and shape whose data is missing; the data of `tensor` is not read."""
    return missing(name, dtype=tensor.dtype, shape=tensor.shape.numpy())


def missing(name: str, *, dtype: ir.DataType, shape: Sequence[int]) -> ir.ExternalTensor:
    """Return a weight whose data is missing."""
    return ir.ExternalTensor(NOT_STORED, None, None, dtype, shape=ir.Shape(shape), name=name)


def is_missing(tensor: ir.TensorProtocol) -> bool:
    """Say whether a tensor is a weight without data."""
    return isinstance(tensor, ir.ExternalTensor) and tensor.location == NOT_STORED


def is_weightless(model: ir.Model) -> bool:
    """Say whether any weight has no data."""
    return any(value.const_value is not None and is_missing(value.const_value) for value in _initializers(model))


def _initializers(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.initializers.values()
