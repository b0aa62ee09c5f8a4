"""What an engine loads, and what goes in and out of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from pytest_sdperf.core.values.artifact import BuildStep


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One input or output of a component.

    Attributes:
        name: Name in the ONNX graph.
        dtype: numpy dtype name; `float` stands for the dtype of the build (float16, float32, float64).
        shape: Concrete extents.
        axes: Names of the axes that a dynamic export leaves open (axis -> symbol).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    axes: Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Build:
    """What an engine loads for one component.

    Attributes:
        key: Content address: equal keys hold equal bytes.
        kind: `onnx` (a graph) or `module` (weights of a torch module).
        path: `model.onnx`, or the safetensors file.
        dtype: Dtype of inputs and weights: `float32`, `float16`, `bfloat16` or `float64`.
        counts: `domain::op_type` -> nodes, subgraphs included; the domain of ONNX itself is empty. Empty for modules.
        float32_products: `domain::op_type` -> products that compute in float32 though the weights are half precision.
        graph_hash: Hash of the graph without its weights; empty for modules.
        size_bytes: Size on disk, external data included.
        steps: How it was made, with the times of when it was built (not when it came from the cache).
        notes: What the builder has to say: refusals of the optimizer, fallbacks.
        limits: Why the kernels of a CUDA GPU would throw on this graph, one sentence per kind of operator.
    """

    key: str
    kind: str
    path: Path
    dtype: str
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    float32_products: Mapping[str, int] = dataclasses.field(default_factory=dict)
    graph_hash: str = ""
    size_bytes: int = 0
    steps: tuple[BuildStep, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
