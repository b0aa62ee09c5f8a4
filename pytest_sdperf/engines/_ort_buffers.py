"""The buffers of an ONNX Runtime session, bound once for each size that it serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.values import TensorSpec, Workload
from pytest_sdperf.engines._ort_memory import Memory

if TYPE_CHECKING:
    import onnxruntime

# How onnxruntime spells element types -> numpy's names.
NUMPY_NAMES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(bool)": "bool",
}


class SizeBuffers:
    """The buffers of one size.

    Attributes:
        number: Of the size, in the order in which they came.
        binding: What a call is made with.
        inputs, outputs: Buffers by name, of what the model declares.
        inner: What a graph tells beside these; its shapes are known to the session alone, which makes the buffers.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        memory: Memory,
        request: LoadRequest,
        workload: Workload,
        *,
        number: int,
    ) -> None:
        self.number, self.binding = number, session.io_binding()
        model, component = request.model, request.component
        specs, outputs = model.outputs(component, workload), session.get_outputs()
        declared = {spec.name for spec in specs}
        self.inputs = _buffers(memory, session.get_inputs(), model.inputs(component, workload))
        self.outputs = _buffers(memory, [node for node in outputs if node.name in declared], specs)
        self.inner = [node.name for node in outputs if node.name not in declared]
        for name, buffer in self.inputs.items():
            memory.bind_input(self.binding, name, buffer)
        for name, buffer in self.outputs.items():
            memory.bind_output(self.binding, name, buffer)
        for name in self.inner:
            self.binding.bind_output(name)


def _buffers(memory: Memory, nodes: Sequence[Any], specs: Sequence[TensorSpec]) -> dict[str, Any]:
    shapes = {spec.name: spec.shape for spec in specs}
    return {node.name: memory.make(shapes[node.name], NUMPY_NAMES[node.type]) for node in nodes}
