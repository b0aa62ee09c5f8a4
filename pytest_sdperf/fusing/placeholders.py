"""Weights without data while an exporter optimizes a graph: numbers that are none, and take no memory.

The optimizer of the exporter folds what it can compute, and for that it reads weights. A weight that has no data is
given NaN in every element for the time being. NaN goes through whatever is computed from it, so afterwards every
constant that holds one has no data either, and everything else is part of the structure and real.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.contents import distinct
from pytest_sdperf.fusing.weightless import without_data

_FIRST_NAN = 0x7FC00001
_LAST_NAN = 0x7FFFFFFF


def fill(graph: ir.Graph, names: Collection[str]) -> None:
    """Give weights placeholders.

    Args:
        graph: A graph as it was exported, not optimized.
        names: Initializers whose data must not be read.

    Raises:
        BuildError: One of them is not float32.
    """
    for index, name in enumerate(names):
        value = graph.initializers[name]
        tensor = value.const_value
        assert tensor is not None
        if tensor.dtype != ir.DataType.FLOAT:
            raise BuildError(f"weight {name} is {tensor.dtype.name}; only float32 modules are exported without weights")
        shape = ir.Shape(tensor.shape.numpy())
        # The optimizer merges small constants that are equal, as weights never are: a NaN has room for a number.
        nan = np.array(_FIRST_NAN + index % (_LAST_NAN - _FIRST_NAN), dtype=np.uint32).view(np.float32)
        value.const_value = ir.Tensor(np.broadcast_to(nan, shape.numpy()), dtype=tensor.dtype, shape=shape, name=name)


def clear(graph: ir.Graph) -> None:
    """Take the data of every initializer that holds a placeholder, or was computed from one."""
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.dtype.is_floating_point() and np.isnan(distinct(tensor.numpy())).any():
            value.const_value = without_data(tensor, value.name or "")
