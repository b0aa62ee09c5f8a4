"""A component in an ONNX Runtime session with bound inputs and outputs; shared by the ort-* engines."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Arrays, ComponentFacts, EngineOption, LoadRequest, Runner
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.recipe import SessionRecipe
from pytest_sdperf.engines import _cuda_libraries, _ort_log
from pytest_sdperf.engines._ort_buffers import NUMPY_NAMES, SizeBuffers
from pytest_sdperf.engines._ort_memory import Memory, TorchMemory

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime
    import torch

# What computes shapes: ONNX Runtime keeps these on the CPU on purpose where all they read is there already, so that a
# shape is known without waiting for the GPU.
# fmt: off
SHAPE_OPERATORS = frozenset((
    "Shape", "Size", "Gather", "Concat", "Slice", "Squeeze", "Unsqueeze", "Cast", "Identity", "Constant",
    "ConstantOfShape", "Reshape", "Range", "Where", "Equal", "Less", "Greater", "Not", "And", "Or", "Add", "Sub",
    "Mul", "Div", "Mod", "Neg", "Abs", "Floor", "Ceil", "Min", "Max", "ReduceProd", "ReduceSum", "ReduceMax",
    "ReduceMin", "Split", "Expand",
))
# fmt: on
# Settings of a session that change what it computes.
SESSION_CONFIG = (
    "optimization.enable_gelu_approximation",
    "session.set_denormal_as_zero",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "optimization.disable_specified_optimizers",
)
PROCESS_OPTIONS = ("gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache", "user_compute_stream",
                   "has_user_compute_stream", "default_memory_arena_cfg", "device_id", "gpu_mem_limit",
                   "enable_cuda_graph")  # fmt: skip
CPU_PROVIDER = "CPUExecutionProvider"
# Provider -> what its arenas call their device.
ARENAS = {"CUDAExecutionProvider": "Cuda"}
NODES_NAMED = 20

GRAPH_OPTIMIZATIONS = EngineOption(
    "all", "What ONNX Runtime rewrites in a graph when it is loaded.", choices=("all", "off")
)


def session_options(onnxruntime: Any, given: Mapping[str, str]) -> Any:
    """Return session options that every ort-* engine starts from: graph optimizations, placement recorded.

    Args:
        onnxruntime: The module.
        given: Every option of the engine.
    """
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    off = given.get("graph_optimizations") == "off"
    options.graph_optimization_level = levels.ORT_DISABLE_ALL if off else levels.ORT_ENABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.log_severity_level = 3
    return options


def versions() -> dict[str, str]:
    """Return the version of the onnxruntime that was imported, and of the CUDA libraries that it has loaded."""
    import onnxruntime

    return {"onnxruntime": onnxruntime.__version__, **_cuda_libraries.versions()}


class OrtRunner(Runner):
    """Runs a session through IO binding, so that no timed call copies between host and device."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        request: LoadRequest,
        *,
        memory: Memory,
        facts: ComponentFacts,
    ) -> None:
        """Make and bind every buffer, at the shapes of the request's workload.

        Args:
            session: The loaded component.
            request: What it was loaded for.
            memory: Where its inputs and outputs live.
            facts: What the engine has to say about the session.
        """
        self._session, self._memory, self._facts = session, memory, facts
        self._request = request
        self._dtypes = {node.name: NUMPY_NAMES[node.type] for node in session.get_inputs()}
        self._places: dict[Workload, SizeBuffers] = {}
        self.resize(request.workload)

    def resize(self, workload: Workload) -> None:
        """Bind the buffers of a size; they are made when it first comes, and stay where they are."""
        size = dataclasses.replace(workload, steps=0, scheduler="")
        if size not in self._places:
            self._places[size] = SizeBuffers(self._session, self._memory, self._request, size, number=len(self._places))
        self._place = self._places[size]
        self._binding, self._inputs, self._outputs = self._place.binding, self._place.inputs, self._place.outputs
        self._inner = self._place.inner

    def bind(self, inputs: Arrays) -> None:
        """Copy the inputs into the bound buffers.

        Raises:
            ValueError: An input has another shape than the component was loaded for.
        """
        import numpy as np

        for name, buffer in self._inputs.items():
            array = np.asarray(inputs[name], dtype=self._dtypes[name], order="C")
            self._memory.write(self._checked(name, buffer, array), array)

    def _checked(self, name: str, buffer: Any, given: Any) -> Any:
        """Return the buffer, if what shall be copied into it has its shape: a copy would broadcast without a word."""
        expected = _extents(buffer)
        if tuple(given.shape) != expected:
            raise ValueError(f"input {name!r} has shape {tuple(given.shape)}; the component was loaded for {expected}")
        return buffer

    def run(self) -> None:
        """Start one call; each size has a CUDA graph of its own."""
        if self._place.number and self._captures:
            self._run_with_graph(str(self._place.number))
        else:
            self._session.run_with_iobinding(self._binding)

    @property
    def _captures(self) -> bool:
        return self._request.options.get("cuda_graph") == "on"

    def run_plainly(self) -> None:
        """Start one call that neither captures nor replays a CUDA graph."""
        if self._captures:
            self._run_with_graph("-1")
        else:
            self.run()

    def _run_with_graph(self, number: str) -> None:
        """Start one call with the graph of a number: the first one captures it; without a number it is graph 0."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        options.add_run_config_entry("gpu_graph_id", number)
        self._session.run_with_iobinding(self._binding, options)

    def synchronize(self) -> None:
        """Wait for the outputs."""
        self._binding.synchronize_outputs()

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copy the outputs to the host, those that the model does not declare after the others."""
        found = {name: self._memory.read(buffer) for name, buffer in self._outputs.items()}
        inner = self._binding.get_outputs()[len(found) :] if self._inner else []
        return {**found, **{name: value.numpy() for name, value in zip(self._inner, inner, strict=True)}}

    def recipe(self) -> SessionRecipe:
        """Return how a session like this one is made: read from the session itself."""
        options, given = self._session.get_session_options(), self._session.get_provider_options()
        level = str(options.graph_optimization_level).rpartition(".")[2]
        config = {}
        for key in SESSION_CONFIG:
            with contextlib.suppress(RuntimeError):  # one that nobody has set
                config[key] = options.get_session_config_entry(key)
        providers = tuple((name, _own_options(given[name])) for name in self._session.get_providers())
        return SessionRecipe(providers, level, config)

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run once on torch tensors; where the buffers are tensors too, without leaving the device.

        Raises:
            ValueError: An input has another shape than the component was loaded for.
        """
        memory = self._memory
        if not isinstance(memory, TorchMemory):
            return super().call(inputs)
        for name, buffer in self._inputs.items():
            memory.write_tensor(self._checked(name, buffer, inputs[name]), inputs[name])
        for buffer in self._inputs.values():
            memory.settle(buffer)
        self.run()
        self.synchronize()
        # Clones: the next call writes into these very tensors.
        return {name: tensor.clone() for name, tensor in self._outputs.items()}

    def enter(self, phase: str) -> None:
        """Have arenas say nothing once calls are repeated: nothing is written while something is timed."""
        import onnxruntime

        if phase == "warmup":
            _ort_log.listen(onnxruntime, to_arenas=False)

    def allocator_peak_bytes(self, *, reset: bool) -> int | None:
        """Return what the arenas of a CUDA provider hold, used or not; they only grow. None for other providers."""
        device = ARENAS.get(self._session.get_providers()[0])
        return _ort_log.arena_bytes(device) if device else None

    def facts(self) -> ComponentFacts:
        """Return providers, threads, where the nodes are, and whether a CUDA graph was asked for."""
        providers, (parts, why_not) = self._session.get_providers(), assignment(self._session)
        facts: ComponentFacts = {**self._facts, "providers": providers, "placement": placement(parts)}
        if self._request.build.counts:
            facts["file_nodes"] = sum(self._request.build.counts.values())
        if providers[0] != CPU_PROVIDER:
            facts["memcpy_nodes"] = _ort_log.memcpy_nodes(self._request.component)
            facts |= cpu_nodes(parts) if parts else {"placement_not_available": why_not}
        if "cuda_graph" in self._request.options:
            facts["cuda_graph"] = {"requested": self._captures}
        return facts


def _own_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a provider that another process can be given: no addresses of this one."""
    return {key: value for key, value in options.items() if value and key not in PROCESS_OPTIONS}


def _extents(buffer: Any) -> tuple[int, ...]:
    """Return the shape of a tensor (an attribute) or of an OrtValue (a method)."""
    shape = buffer.shape
    return tuple(shape() if callable(shape) else shape)


def assignment(session: onnxruntime.InferenceSession) -> tuple[list[Any], str]:
    """Return the parts of the graph with their execution providers, before copies between devices were put in.

    Returns:
        The parts, each with `ep_name` and `get_nodes()`; where there is none, why onnxruntime cannot tell: older
        versions know no such question, and newer ones answer it only for a session whose options asked to remember.
    """
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return [], f"onnxruntime {onnxruntime.__version__} does not tell"
    try:
        parts = list(ask())
    except Fail as error:
        return [], str(error)
    return parts, "" if parts else f"onnxruntime {onnxruntime.__version__} names no node"


def placement(parts: Sequence[Any]) -> dict[str, int]:
    """Count the nodes that each execution provider was given."""
    nodes: Counter[str] = Counter()
    for part in parts:
        nodes[part.ep_name] += len(part.get_nodes())
    return dict(nodes)


def cpu_nodes(parts: Sequence[Any]) -> ComponentFacts:
    """Return how many nodes run on the CPU, how many of them compute shapes, and some names, these last."""
    nodes = [node for part in parts if part.ep_name == CPU_PROVIDER for node in part.get_nodes()]
    shapes = [node for node in nodes if not node.domain and node.op_type in SHAPE_OPERATORS]
    others = [node for node in nodes if node not in shapes]
    return {
        "cpu_nodes": [f"{node.op_type} {node.name}".strip() for node in [*others, *shapes][:NODES_NAMED]],
        "cpu_node_count": len(nodes),
        "shape_node_count": len(shapes),
    }


def create_session(request: LoadRequest, *, options: Any, providers: Sequence[Any]) -> Any:
    """Create the session and make sure that the provider which was asked for is the one that runs.

    Raises:
        EngineMissingError: ONNX Runtime fell back to another provider; the text says what it offers.
    """
    import onnxruntime

    from pytest_sdperf.core.errors import EngineMissingError

    wanted = providers[0][0] if isinstance(providers[0], tuple) else providers[0]
    options.logid = request.component
    if wanted != CPU_PROVIDER:
        # Warnings: one of them is the only place where the number of Memcpy nodes is told.
        options.log_severity_level = 2
    _ort_log.listen(onnxruntime, to_arenas=wanted in ARENAS)
    session = onnxruntime.InferenceSession(str(request.build.path), options, providers=list(providers))
    if session.get_providers()[0] != wanted:
        raise EngineMissingError(
            f"onnxruntime {onnxruntime.__version__} ({onnxruntime.__file__}) did not start {wanted}; it runs "
            f"{session.get_providers()[0]} and offers {', '.join(onnxruntime.get_available_providers())}. "
            f"Install the build that has {wanted} alone in its environment, and its libraries: see the worker's stderr."
        )
    return session
