"""An ONNX graph computed in float64 by torch: what every build of it is compared with.

Computed without fusers, lowering and onnxruntime: by `tracing.definitions`, which raise nothing here silently.
"""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir
import torch

from pytest_sdperf.tracing.computer import Computer


def evaluate(model, inputs, *, rounded=False):
    """Return the outputs of a model for inputs by name; floating-point numbers are float64 all the way.

    `rounded`: but every result of a node is rounded to the type that it has in the graph, as the best kernels do.
    """
    graph = model.graph
    computer = Computer(graph, wide=torch.float64)
    known = {value: computer.placed(inputs[value.name]) for value in graph.inputs}
    left = Counter([*(value for node in graph for value in node.inputs if value is not None), *graph.outputs])

    def get(value):
        if value is not None and value not in known:
            known[value] = computer.weight(value)
        return None if value is None else known[value]

    for node in graph:
        assert node.domain == "", f"no definition of {node.domain}::{node.op_type}"
        results = computer.outputs(node, [get(value) for value in node.inputs])
        assert any(result is not None for result in results), f"no definition of this form of {node.op_type}"
        for value, result in zip(node.outputs, results, strict=True):
            known[value] = _round(result, value.dtype) if rounded and result is not None else result
        for value in node.inputs:
            if value is not None:
                left[value] -= 1
                if not left[value]:  # all results of a UNet would be gigabytes
                    del known[value]
    return [get(value).numpy() for value in graph.outputs]


def _round(tensor, dtype):
    return tensor.half().double() if dtype == ir.DataType.FLOAT16 else tensor
