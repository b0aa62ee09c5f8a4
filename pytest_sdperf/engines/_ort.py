"""A component in an ONNX Runtime session with bound inputs and outputs; shared by the ort-* engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.contracts import Arrays, LoadRequest, Runner

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime
    import torch

NUMPY_NAMES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(bool)": "bool",
}


def session_options(onnxruntime: Any) -> Any:
    """Return session options that every ort-* engine starts from: all graph optimizations, placement recorded."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.log_severity_level = 3
    return options


def versions() -> dict[str, str]:
    """Return the version of the onnxruntime that was imported."""
    import onnxruntime

    return {"onnxruntime": onnxruntime.__version__}


class OrtRunner(Runner):
    """Runs a session through IO binding, so that no timed call copies between host and device."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        request: LoadRequest,
        *,
        device: str,
        facts: Mapping[str, Any],
    ) -> None:
        import onnxruntime

        self._ort = onnxruntime
        self._session = session
        self._device = device
        self._index = request.device_index if device != "cpu" else 0
        self._facts = dict(facts)
        self._binding = session.io_binding()
        self._inputs: dict[str, Any] = {}
        self._dtypes = {node.name: NUMPY_NAMES[node.type] for node in session.get_inputs()}
        self._output_names = [node.name for node in session.get_outputs()]
        shapes = {spec.name: spec.shape for spec in request.model.outputs(request.component, request.workload)}
        # Fixed output buffers: a CUDA graph replays onto the addresses it was captured with.
        self._outputs = {
            node.name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                list(shapes[node.name]), _numpy_type(NUMPY_NAMES[node.type]), device, self._index
            )
            for node in session.get_outputs()
        }
        for name, value in self._outputs.items():
            self._binding.bind_ortvalue_output(name, value)

    def bind(self, inputs: Arrays) -> None:
        """Copy the inputs to the device; a second call writes into the same buffers."""
        import numpy as np

        for name, dtype in self._dtypes.items():
            # A copy: on a CPU the session's value lives in this very array, and the caller's must not change.
            array = np.array(inputs[name], dtype=dtype, order="C")
            known = self._inputs.get(name)
            if known is not None and list(known.shape()) == list(array.shape):
                known.update_inplace(array)
                continue
            self._inputs[name] = self._ort.OrtValue.ortvalue_from_numpy(array, self._device, self._index)
            self._binding.bind_ortvalue_input(name, self._inputs[name])

    def run(self) -> None:
        """Start one call."""
        self._session.run_with_iobinding(self._binding)

    def synchronize(self) -> None:
        """Wait for the outputs."""
        self._binding.synchronize_outputs()

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copy the outputs to the host."""
        import numpy as np

        return {name: np.array(self._outputs[name].numpy()) for name in self._output_names}

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run once on torch tensors, without leaving the device where both sides are on CUDA."""
        if self._device == "cpu":
            return super().call(inputs)
        return self._call_on_device(inputs)

    def _call_on_device(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        import torch

        binding = self._session.io_binding()
        held = []
        for name, dtype in self._dtypes.items():
            tensor = inputs[name].to(getattr(torch, dtype)).contiguous()
            held.append(tensor)
            self._bind_tensor(binding.bind_input, name, tensor, dtype)
        outputs = {}
        for name, value in self._outputs.items():
            dtype = _dtype_of(value)
            outputs[name] = torch.empty(tuple(value.shape()), dtype=getattr(torch, dtype), device=held[0].device)
            self._bind_tensor(binding.bind_output, name, outputs[name], dtype)
        torch.cuda.current_stream().synchronize()  # the session has a stream of its own
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return outputs

    def _bind_tensor(self, bind: Any, name: str, tensor: torch.Tensor, dtype: str) -> None:
        bind(name, self._device, self._index, _numpy_type(dtype), tuple(tensor.shape), tensor.data_ptr())

    def facts(self) -> dict[str, Any]:
        """Return providers, threads and the number of nodes per execution provider."""
        return {**self._facts, "providers": self._session.get_providers(), "placement": placement(self._session)}


def placement(session: onnxruntime.InferenceSession) -> dict[str, int]:
    """Count the nodes that each execution provider was given, copies between devices included."""
    counts: Counter[str] = Counter()
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] += len(part.get_nodes())
    return dict(counts)


def _numpy_type(name: str) -> Any:
    import numpy as np

    return np.dtype(name).type


def _dtype_of(value: Any) -> str:
    return NUMPY_NAMES[value.data_type()]


def create_session(request: LoadRequest, *, options: Any, providers: Sequence[Any]) -> Any:
    """Create the session and make sure that the provider which was asked for is the one that runs.

    Raises:
        EngineMissingError: ONNX Runtime fell back to another provider; the text says what it offers.
    """
    import onnxruntime

    from pytest_sdperf.errors import EngineMissingError

    wanted = providers[0][0] if isinstance(providers[0], tuple) else providers[0]
    session = onnxruntime.InferenceSession(str(request.build.path), options, providers=list(providers))
    if session.get_providers()[0] != wanted:
        raise EngineMissingError(
            f"onnxruntime {onnxruntime.__version__} ({onnxruntime.__file__}) did not start {wanted}; it runs "
            f"{session.get_providers()[0]} and offers {', '.join(onnxruntime.get_available_providers())}. "
            f"Install the build that has {wanted} alone in its environment, and its libraries: see the worker's stderr."
        )
    return session
