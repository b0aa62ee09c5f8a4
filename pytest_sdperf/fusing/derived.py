"""Weights that are computed from others when a model is saved, so that no model is in memory twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.contents import Array
from pytest_sdperf.fusing.weightless import is_missing, missing


def derive(
    tensors: Sequence[ir.TensorProtocol],
    change: Callable[..., Array],
    shape: ir.Shape,
    *,
    dtype: ir.DataType,
    name: str,
) -> ir.TensorProtocol:
    """Return a tensor that is computed whenever it is read; one without data if the data of another is missing.

    Args:
        tensors: What it is computed from.
        change: Their contents -> its contents.
        shape: Its shape.
        dtype: Its type; what `change` returns is converted.
        name: Its name.
    """
    if any(is_missing(tensor) for tensor in tensors):
        return missing(name, dtype=dtype, shape=shape.numpy())

    def compute() -> ir.TensorProtocol:
        array = change(*(tensor.numpy() for tensor in tensors))
        if array.dtype != dtype.numpy():
            array = array.astype(dtype.numpy())
        return ir.Tensor(np.asarray(array, order="C"), dtype=dtype, shape=shape, name=name)

    return ir.LazyTensor(compute, dtype=dtype, shape=shape, name=name)
