"""Folders of exported graphs, as somebody else would lay them out: tiny, and with every form that a file may have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
}
WIDTH = 32


def make_unet(
    *,
    sample: Sequence[int | str] = (2, 16, WIDTH),
    timestep: Sequence[int | str] = (),
    dtype: str = "float32",
    timestep_dtype: str = "float32",
    names: Sequence[str] = ("sample", "timestep", "out_sample"),
    opset: int = 18,
) -> onnx.ModelProto:
    """Return a graph with the interface of the model `tiny`: out = sample x weight + timestep."""
    given, time, result = names
    weight = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32) / 8
    weight = weight.astype(np.float16) if dtype == "float16" else weight
    tensor = numpy_helper.from_array(weight, "weight")
    if dtype == "bfloat16":
        tensor = helper.make_tensor("weight", TensorProto.BFLOAT16, weight.shape, weight.flatten())
    nodes = [
        helper.make_node("MatMul", [given, "weight"], ["product"], name="product"),
        helper.make_node("Cast", [time], ["time"], name="cast", to=TYPES[dtype]),
        helper.make_node("Add", ["product", "time"], [result], name="sum"),
    ]
    inputs = [
        helper.make_tensor_value_info(given, TYPES[dtype], sample),
        helper.make_tensor_value_info(time, TYPES[timestep_dtype], timestep),
    ]
    outputs = [helper.make_tensor_value_info(result, TYPES[dtype], sample)]
    graph = helper.make_graph(nodes, "unet", inputs, outputs, [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def write(folder: Path, component: str, model: onnx.ModelProto, *, external: bool = True) -> Path:
    """Write `component/model.onnx` with its data beside it; return the path of the graph."""
    path = folder / component / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "weights.pb").unlink(missing_ok=True)  # onnx appends to a file that is there
    options: dict[str, Any] = {"save_as_external_data": True, "location": "weights.pb", "size_threshold": 0}
    onnx.save_model(model, path, **(options if external else {}))
    return path


def move_data(path: Path, location: str) -> None:
    """Say in a graph that its data lies elsewhere."""
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    onnx.save_model(model, path)
