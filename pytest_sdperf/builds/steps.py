"""Small parts of the steps of a build."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.fingerprint import modules_of, source_hash
from pytest_sdperf.core.clock import Took
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError, WorkerError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import Selection
from pytest_sdperf.core.values import Build, Workload
from pytest_sdperf.core.values.artifact import BuildStep
from pytest_sdperf.tasks import export, weights
from pytest_sdperf.tasks._made_graph import MadeGraph

# The libraries that the steps of a build load.
MODULE_LIBRARIES = ("torch", "diffusers", "transformers")
EXPORT_LIBRARIES = (*MODULE_LIBRARIES, "onnx", "onnx_ir", "onnxscript")
FUSE_LIBRARIES = {
    "native": ("onnx_ir", "onnx", "numpy", "ml_dtypes", "onnxruntime"),
    "ort": ("onnxruntime", "onnx", "onnx_ir", "numpy", "sympy"),
}

# Defaults of a request, and where weights come from: no component depends on them, and every model has them.
_OF_EVERY_MODEL = frozenset(Model.__annotations__)


@contextlib.contextmanager
def as_part_of_building(step: str) -> Iterator[None]:
    """Say in an error of a worker which step of the build it was."""
    try:
        yield
    except OutOfMemoryError as error:
        # Memory of the machine that builds: no value of an engine, which would be stored and compared.
        raise BuildError(f"memory ran out while building ({step}): {error}") from error
    except WorkerError as error:
        if error.reason != "timeout":
            raise
        message = f"{error} while building ({step}). Allow more with -o sdperf_build_timeout=TIME."
        raise WorkerError(message, reason=error.reason, tail=error.tail) from error


def identity(model: Model, component: str) -> dict[str, Any]:
    """Return what identifies a component without its weights, for a cache key."""
    held = _held(model, component)
    return {
        "component": component,
        "config": model.config(component),
        "class": _dotted(type(model)),
        "fields": {name: _plain(value) for name, value in held.items()},
        "model_code": source_hash(*modules_of(model, *held.values())),
    }


def _held(model: Model, component: str) -> dict[str, Any]:
    """Return what a model object holds for a component beside what every model says; nothing if it is no dataclass.

    Of what it holds for each component it is what it holds for this one.
    """
    thing: Any = model
    fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
    held = {field.name: getattr(model, field.name) for field in fields if field.name not in _OF_EVERY_MODEL}
    return {
        name: value[component] if isinstance(value, Mapping) and component in value else value
        for name, value in held.items()
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON data that differs where the value does."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class": _dotted(type(value)), **fields}
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(one)] for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    text = repr(value)
    return _dotted(type(value)) if " at 0x" in text else text  # an address is another one in every run


def _dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def kept_ops(selection: Selection, component: str, dtype: str) -> tuple[str, ...]:
    """Return the operators of a component that stay float32 in a build of a narrower type."""
    named = selection.fp32_ops_of(component) if dtype != "float32" else ()
    return tuple(op.partition(":")[2] for op in named)


def exact_names(model: Model, component: str, workload: Workload) -> tuple[str, ...]:
    """Return the inputs and outputs that a model declares as float32: they stay so in every build."""
    specs = (*model.inputs(component, workload), *model.outputs(component, workload))
    return tuple(spec.name for spec in specs if spec.dtype == "float32")


def shapes_only(workload: Workload) -> Workload:
    """Return the workload without steps and scheduler, which no component sees."""
    return dataclasses.replace(workload, steps=0, scheduler="")


def open_shapes(model: Model) -> Workload:
    """Return the example of a dynamic export: no extent is 1 and no two are equal, or the exporter ties them."""
    return Workload(batch_size=2, height=model.height, width=model.width + 64, steps=0, scheduler="")


SMALL = Workload(batch_size=2, height=128, width=192, steps=0, scheduler="")
"""What is cheap to compute and hides nothing: two images that are not square, and 2x3 tokens at the deepest level of
a UNet that halves them three times."""


def step_of(entry: Entry) -> BuildStep:
    """Return the step that made an entry."""
    took = convert(entry.metadata, Took)
    return BuildStep(
        entry.key.rpartition("-")[0],
        took.seconds,
        took.cpu_seconds,
        host=entry.built.host,
        commit=entry.built.commit,
        date=entry.built.date,
        now=entry.now,
    )


def module_build(entry: Entry, dtype: str) -> Build:
    """Return what the cache entry of weights holds, for an engine that loads a torch module."""
    return Build(
        entry.key,
        "module",
        entry.path / weights.FILE,
        dtype,
        size_bytes=entry.size_bytes,
        steps=(step_of(entry),),
    )


def made_graph(entry: Entry) -> MadeGraph:
    """Return what the task that made the entry of a graph said of it."""
    return convert(entry.metadata, MadeGraph)


def onnx_build(*entries: Entry, dtype: str) -> Build:
    """Return what the cache entry of a graph holds: the last one of those that led to it."""
    entry, made = entries[-1], made_graph(entries[-1])
    notes, without = made.notes, made.graph.without_cpu_kernel
    if without:
        notes = (*notes, f"no kernel on the CPU for {', '.join(without)}: checked, but not loaded here")
    return Build(
        entry.key,
        "onnx",
        entry.path / export.FILE,
        dtype,
        counts=made.graph.counts,
        float32_products=made.graph.float32_products,
        graph_hash=made.graph.graph_hash,
        size_bytes=entry.size_bytes,
        steps=tuple(map(step_of, entries)),
        notes=notes,
        limits=made.limits,
    )
