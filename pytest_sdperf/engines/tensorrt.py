"""TensorRT itself, 10 or 11: a strongly typed network, built once and executed on torch's memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Arrays, Engine, EngineOption, LoadRequest, Model, Requirement, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError
from pytest_sdperf.core.values import ComponentFacts
from pytest_sdperf.engines import _cuda_libraries, _tensorrt, _torch

if TYPE_CHECKING:
    import numpy as np
    import torch

_RELEASES = ">=10"
_NO_ROOM = re.compile(r"out ?of ?memory", re.IGNORECASE)
_DTYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}


class TensorRtEngine(Engine):
    """TensorRT through its Python API. Every type is that of the graph, which is all that TensorRT 11 offers."""

    name = "tensorrt"
    consumes = "onnx"
    device_kinds = ("cuda",)
    options = {
        "cuda_graph": EngineOption("off", "Capture the run once and replay it.", choices=("off", "on")),
        "builder_level": EngineOption("3", "How long TensorRT looks for fast kernels.", choices=tuple("012345")),
        "tf32": EngineOption("off", "Let fp32 products and convolutions use TF32.", choices=("off", "on")),
    }
    requirements = (Requirement("tensorrt"), Requirement("torch"))
    extra = "cuda"
    fuses = True
    compiles = True

    def missing(self, device_kind: DeviceKind = "cuda") -> str | None:
        """Ask for TensorRT with its libraries, for the CUDA that is here, and for torch, whose memory it works on."""
        wanted = _tensorrt.requirement(_RELEASES, cuda=_cuda_libraries.cuda_to_serve())
        return _tensorrt.missing_release(wanted) or super().missing(device_kind)

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return half precision."""
        return ("fp16",)

    def preload(self, model: Model, component: str) -> None:
        """Import torch first: its CUDA libraries are those that TensorRT shall find."""
        import torch  # noqa: F401, I001 - the order matters
        import tensorrt  # noqa: F401

    def versions(self) -> dict[str, str]:
        """Return the versions of TensorRT and torch."""
        import torch  # noqa: I001 - the order matters
        import tensorrt

        return {"tensorrt": str(tensorrt.__version__), "torch": str(torch.__version__)}

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Load the engine from the folder of the request; build it there if it is not."""
        import torch  # noqa: F401, I001 - the order matters
        import tensorrt

        plan = request.work_dir / f"{request.component}.plan"
        logger = _logger()
        if not plan.is_file():
            _build(request, logger, plan)
        runtime = tensorrt.Runtime(logger)
        engine = _given(logger, request, "load", lambda: runtime.deserialize_cuda_engine(plan.read_bytes()))
        context = _given(logger, request, "prepare", engine.create_execution_context)
        yield TensorRtRunner(engine, context, request, logger)


def _logger() -> Any:
    """Return a logger that writes to stderr, and whose `no_room` is what TensorRT last said of memory that ran out."""
    import tensorrt

    errors = (tensorrt.ILogger.Severity.INTERNAL_ERROR, tensorrt.ILogger.Severity.ERROR)

    class Remembering(tensorrt.ILogger):  # type: ignore[misc]  # no types come with it
        def __init__(self) -> None:
            tensorrt.ILogger.__init__(self)
            self.no_room = ""

        def log(self, severity: Any, msg: str) -> None:
            if severity in errors and _NO_ROOM.search(msg):
                self.no_room = msg
            if severity in (*errors, tensorrt.ILogger.Severity.WARNING):
                sys.stderr.write(f"[TensorRT] [{severity.name}] {msg}\n")

    return Remembering()


def _given(logger: Any, request: LoadRequest, what: str, ask: Callable[[], Any]) -> Any:
    """Return what TensorRT gives, which is None where it failed.

    Args:
        logger: Knows why.
        request: The component.
        what: What it is to do with the engine.
        ask: Asks for it.

    Raises:
        OutOfMemoryError: Memory ran out.
        BuildError: Something else was wrong.
    """
    import tensorrt

    logger.no_room = ""  # a build that does without a kernel for lack of memory is no failure
    found = ask()
    if found is not None:
        return found
    failed = f"TensorRT {tensorrt.__version__} did not {what} the engine of the {request.component}"
    if logger.no_room:
        raise OutOfMemoryError(f"{failed}: {logger.no_room}")
    raise BuildError(f"{failed}: see the worker's stderr.")


def _build(request: LoadRequest, logger: Any, plan: Path) -> None:
    """Build the engine of a component and write it, with the timings that TensorRT took for it.

    Raises:
        BuildError: TensorRT refused the graph or found no implementation.
        OutOfMemoryError: Memory ran out.
    """
    import tensorrt

    builder = tensorrt.Builder(logger)
    network = builder.create_network(1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(request.build.path)):
        errors = "; ".join(str(parser.get_error(index)) for index in range(parser.num_errors))
        raise BuildError(f"TensorRT {tensorrt.__version__} cannot read the graph of the {request.component}: {errors}")
    config = builder.create_builder_config()
    config.builder_optimization_level = int(request.options["builder_level"])
    if request.options["tf32"] == "off":  # it is on by default
        config.clear_flag(tensorrt.BuilderFlag.TF32)
    config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)
    _add_ranges(request, network, builder, config)
    serialized = _given(logger, request, "build", lambda: builder.build_serialized_network(network, config))
    plan.with_suffix(".timing").write_bytes(config.get_timing_cache().serialize())
    plan.write_bytes(serialized)


def _add_ranges(request: LoadRequest, network: Any, builder: Any, config: Any) -> None:
    """Say for every input with an open extent which shapes it can have."""
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    is_open = [tensor.name for tensor in inputs if -1 in tuple(tensor.shape)]
    if not is_open:
        return
    profile, ranges = builder.create_optimization_profile(), _tensorrt.ranges(request)
    for name in is_open:
        smallest, best, largest = ranges[name]
        profile.set_shape(name, smallest, best, largest)
    config.add_optimization_profile(profile)


class TensorRtRunner(Runner):
    """Executes an engine on tensors that stay where they are, on a stream of its own."""

    def __init__(self, engine: Any, context: Any, request: LoadRequest, logger: Any) -> None:
        """Allocate every input and output, at the shapes of the request's workload.

        Args:
            engine: The loaded engine.
            context: What executes it.
            request: What it was loaded for.
            logger: What TensorRT writes to.
        """
        import tensorrt
        import torch

        self._torch, self._engine, self._context, self._logger = torch, engine, context, logger
        self._device = torch.device(_torch.torch_device(request))
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._wants_graph = request.options["cuda_graph"] == "on"
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm = False
        model, component, workload = request.model, request.component, request.workload
        specs = (*model.inputs(component, workload), *model.outputs(component, workload))
        shapes = {spec.name: spec.shape for spec in specs}
        self._inputs: dict[str, torch.Tensor] = {}
        self._outputs: dict[str, torch.Tensor] = {}
        for name in map(engine.get_tensor_name, range(engine.num_io_tensors)):
            dtype = getattr(torch, _DTYPES[engine.get_tensor_dtype(name).name])
            tensor = torch.empty(shapes[name], dtype=dtype, device=self._device)
            is_input = engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT
            (self._inputs if is_input else self._outputs)[name] = tensor
            if is_input:
                self._context.set_input_shape(name, tuple(shapes[name]))
            self._context.set_tensor_address(name, tensor.data_ptr())

    def bind(self, inputs: Arrays) -> None:
        """Copy the inputs to the device.

        Raises:
            ValueError: An input has another shape than the component was loaded for.
        """
        import numpy as np

        self._write({name: self._torch.from_numpy(np.array(inputs[name])) for name in self._inputs})
        self._torch.cuda.current_stream(self._device).synchronize()

    def _write(self, inputs: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in self._inputs.items():
            if inputs[name].shape != tensor.shape:
                raise ValueError(
                    f"input {name!r} has shape {tuple(inputs[name].shape)}; the component was loaded for "
                    f"{tuple(tensor.shape)}"
                )
            tensor.copy_(inputs[name])

    def run(self) -> None:
        """Start one call; the first is never captured, because TensorRT allocates in it, and the second is."""
        if self._wants_graph and self._warm and self._graph is None:
            self._graph = self._torch.cuda.CUDAGraph()
            with self._torch.cuda.graph(self._graph, stream=self._stream):
                self._execute()
        if self._graph is None:
            self._execute()
        else:
            with self._torch.cuda.stream(self._stream):
                self._graph.replay()
        self._warm = True

    def run_plainly(self) -> None:
        """Start one call that neither captures nor replays a CUDA graph."""
        self._execute()

    def _execute(self) -> None:
        self._logger.no_room = ""
        if self._context.execute_async_v3(self._stream.cuda_stream):
            return
        if self._logger.no_room:
            raise OutOfMemoryError(f"TensorRT did not execute the component: {self._logger.no_room}")
        raise RuntimeError("TensorRT did not execute the component; the last lines of the worker's stderr say why")

    def synchronize(self) -> None:
        """Wait for the outputs."""
        self._stream.synchronize()

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copy the outputs to the host."""
        return {name: tensor.to("cpu", copy=True).numpy() for name, tensor in self._outputs.items()}

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run once on torch tensors, on the device; the streams wait for each other, and the host for neither."""
        self._write(inputs)
        caller = self._torch.cuda.current_stream(self._device)
        self._stream.wait_stream(caller)
        self.run()
        caller.wait_stream(self._stream)
        # Clones: the next call writes into these very tensors.
        return {name: tensor.clone() for name, tensor in self._outputs.items()}

    def facts(self) -> ComponentFacts:
        """Return what runs: one engine that holds the whole graph, its layers, and whether a graph was replayed."""
        return {
            "partitions": {"engines": 1, "cpu_nodes": 0},
            "layers": self._engine.num_layers,
            "cuda_graph": {
                "requested": self._wants_graph,
                "replayed": self._graph is not None,
                "changed_inputs": None,
            },
        }
