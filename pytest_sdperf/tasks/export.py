"""Export one component to ONNX: always float32, one graph file and one data file, or a graph without weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.errors import BuildError, UnknownNameError
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.core.values import TensorSpec, Workload
from pytest_sdperf.fusing import graph
from pytest_sdperf.tasks import TaskContext, _structure
from pytest_sdperf.tasks._made_graph import MadeGraph
from pytest_sdperf.tasks._quick_export import quick_export

if TYPE_CHECKING:
    import torch

FILE = "model.onnx"
# The module path of a node is worth keeping; its stack trace holds paths of this machine.
_KEPT_METADATA = "pkg.torch.onnx.name_scopes"


@dataclass(frozen=True)
class ExportModule:
    """The torch module of one component.

    Attributes:
        model: Catalog name.
        component: One of the model's components.
        exporter: `dynamo` or `torchscript`.
        opset: ONNX opset of the graph.
        shapes: `static` (those of `workload`) or `dynamic` (any).
        workload: Shapes of the example that is exported.
        weights: A safetensors file; None for a graph whose weights have no data.
    """

    model: str
    component: str
    exporter: str
    opset: int
    shapes: str
    workload: Workload
    weights: Path | None = None


def run(request: ExportModule, context: TaskContext) -> MadeGraph:
    """Write `model.onnx` and `model.onnx.data` into the task's folder and check them.

    Without weights there is no second file: the graph is the same, and its weights have no data.

    Raises:
        UnknownNameError: There is no such exporter.
        BuildError: The exported model is not valid, or cannot be exported without weights.
        CacheError: The disk is full or read-only.
    """
    model, component = context.catalog.models.get(request.model), request.component
    exporters: dict[str, Callable[..., None]] = {"dynamo": _dynamo, "torchscript": _torchscript}
    if request.exporter not in exporters:
        raise UnknownNameError("exporter", request.exporter, exporters)
    path = context.out_dir / FILE
    watch = Stopwatch()
    context.say(f"exporting {model.name} {component} to ONNX ({request.exporter}, opset {request.opset})")
    with disk_errors(context.cache_dir), _one_thread():
        exporters[request.exporter](
            model, component, path, weights=request.weights, opset=request.opset,
            dynamic=request.shapes == "dynamic", workload=request.workload,
        )  # fmt: skip
    took = watch.took()
    context.say(f"checking the graph of {model.name} {component}")
    return MadeGraph(**vars(took), graph=graph.describe(path))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute in one thread: tracing makes many small operations, for which more threads only wait."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _dynamo(
    model: Model, component: str, path: Path, *, weights: Path | None, opset: int, dynamic: bool, workload: Workload
) -> None:
    import onnx_ir as ir
    import torch

    inputs, outputs = model.inputs(component, workload), model.outputs(component, workload)
    module = model.module(component, weights=weights).eval()
    if weights is None:
        _structure.hollow(module, f"{model.name} {component}")
    with torch.no_grad(), quick_export():
        program = torch.onnx.export(
            module,
            _example(model, component, workload),
            dynamo=True,
            opset_version=opset,
            input_names=[spec.name for spec in inputs],
            output_names=[spec.name for spec in outputs],
            dynamic_shapes=tuple(dict(spec.axes) for spec in inputs) if dynamic else None,
            verbose=False,
            optimize=weights is not None,
        )
        assert program is not None
        if weights is None:
            _structure.optimize(program)
    _strip(program.model)
    if weights is None:
        ir.save(program.model, path)
    else:
        program.save(path, external_data=True)


def _strip(model: Any) -> None:
    """Remove what names this machine or grows the file from an onnx_ir model."""
    for part in (model, model.graph, *model.functions.values(), *model.graph.all_nodes()):
        kept = part.metadata_props.get(_KEPT_METADATA)
        part.metadata_props.clear()
        part.doc_string = None
        if kept:
            part.metadata_props[_KEPT_METADATA] = kept


def _torchscript(
    model: Model, component: str, path: Path, *, weights: Path | None, opset: int, dynamic: bool, workload: Workload
) -> None:
    """Export by tracing, with the classic attention processor: the form that older optimizers were made for."""
    import warnings

    import onnx
    import torch

    if weights is None:
        raise BuildError("the exporter torchscript executes the module, which needs weights. Use the exporter dynamo.")
    inputs, outputs = model.inputs(component, workload), model.outputs(component, workload)
    module = model.module(component, weights=weights).eval()
    _use_classic_attention(module)
    raw = path.parent / "raw"
    raw.mkdir()
    with torch.no_grad(), warnings.catch_warnings():
        # This exporter is deprecated and its tracer warns about every branch; the user asked for it by name.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            _example(model, component, workload),
            str(raw / FILE),
            dynamo=False,
            opset_version=opset,
            input_names=[spec.name for spec in inputs],
            output_names=[spec.name for spec in outputs],
            dynamic_axes={spec.name: dict(spec.axes) for spec in (*inputs, *outputs)} if dynamic else None,
            do_constant_folding=True,
        )
    del module
    proto = onnx.load(raw / FILE)
    for node in proto.graph.node:
        node.doc_string = ""
    _save_with_data(proto, path)
    for file in raw.iterdir():
        file.unlink()
    raw.rmdir()


def _save_with_data(proto: Any, path: Path) -> None:
    import onnx

    onnx.save_model(proto, path, save_as_external_data=True, all_tensors_to_one_file=True, location=f"{path.name}.data")


def _use_classic_attention(module: torch.nn.Module) -> None:
    from diffusers.models.attention_processor import AttnProcessor

    parts: list[Any] = list(module.modules())
    for part in parts:
        if hasattr(part, "set_attn_processor"):
            part.set_attn_processor(AttnProcessor())


def _example(model: Model, component: str, workload: Workload) -> tuple[torch.Tensor, ...]:
    import torch

    arrays = model.example(component, workload)
    specs: tuple[TensorSpec, ...] = model.inputs(component, workload)
    return tuple(torch.from_numpy(arrays[spec.name]) for spec in specs)
