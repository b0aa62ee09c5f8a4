"""Optimize an exported graph with the fuser `ort`: `onnxruntime.transformers.optimizer`, as most users have it."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.tasks import TaskContext, _ort_failures
from pytest_sdperf.tasks._fuse_graph import FuseGraph
from pytest_sdperf.tasks._made_graph import MadeGraph

FILE = "model.onnx"
# Which optimizer of onnxruntime knows the component.
MODEL_TYPES = {
    "unet": "unet",
    "vae_decoder": "vae",
    "vae_encoder": "vae",
    "text_encoder": "clip",
    "text_encoder_2": "clip",
}
_FAILURE = re.compile(r"fail|error|exception|unable|cannot|could not", re.IGNORECASE)
_MAX_NOTES = 20
# What raises when code that walks graphs meets one that it was not made for.
_MISHAPS = (TypeError, ValueError, KeyError, IndexError, AssertionError, AttributeError, RuntimeError)


def run(request: FuseGraph, context: TaskContext) -> MadeGraph:
    """Write the optimized `model.onnx` and `model.onnx.data` into the task's folder and check them.

    Beside them goes `sites.json`: every fused node, and every place where the fuser `native` makes one of the same
    export and onnxruntime did not.

    Returns:
        With the time of the optimizer, and notes of what it logged as a failure.

    Raises:
        BuildError: The optimizer raised, lacks a fusion that an optimization asks for, or produced an invalid model.
        CacheError: The disk is full or read-only.
    """
    import onnx_ir as ir

    from pytest_sdperf.fusing.limits import find_limits

    component, optimizations = request.component, request.optimizations
    path = context.out_dir / FILE
    watch = Stopwatch()
    context.say(f"optimizing {component} with the fuser ort ({'+'.join(optimizations) or request.dtype})")
    with disk_errors(context.cache_dir), failures_logged() as notes:
        _optimize(
            request.source,
            path,
            model_type=MODEL_TYPES.get(component, "unet"),
            switched_on={name: context.catalog.optimizations.get(name).ort_options for name in optimizations},
            half=request.dtype == "float16",
            float32=request.float32,
            float32_ops=request.float32_ops,
        )
    took = watch.took()
    context.say(f"checking the optimized graph of {component}")
    problems = _write_sites(request, path, context)
    try:
        described = graph.describe(path, strict=True)
    except BuildError as error:
        raise _ort_failures.invalid(error) from error
    said = (*summary(notes), *problems)
    return MadeGraph(**vars(took), graph=described, notes=said, limits=tuple(find_limits(ir.load(path))))


def _write_sites(request: FuseGraph, path: Path, context: TaskContext) -> list[str]:
    """Write what was fused and what was left; where that cannot be found out, say so in a note."""
    import onnx_ir as ir

    from pytest_sdperf.fusing.missed import find_leftovers

    optimizations = map(context.catalog.optimizations.get, request.optimizations)
    fusions = [fusion for optimization in optimizations for fusion in optimization.fusions()]
    try:
        found = find_leftovers(ir.load(request.source), ir.load(path), fusions)
    except (*_MISHAPS, BuildError) as error:
        return [f"what the optimizer left was not found out: {type(error).__name__}: {error}"]
    with disk_errors(context.cache_dir):
        record.write(path.parent, found)
    return []


def ort_options(optimizations: Sequence[str], catalog: Catalog) -> tuple[str, ...]:
    """Return the `FusionOptions` attributes that the optimizations switch on, each once."""
    return tuple(
        dict.fromkeys(
            name for optimization in optimizations for name in catalog.optimizations.get(optimization).ort_options
        )
    )


def fusion_options(model_type: str, switched_on: Sequence[str]) -> Any:
    """Return `FusionOptions` with every fusion off except `switched_on`.

    Raises:
        BuildError: This onnxruntime has no such fusion.
    """
    import onnxruntime
    from onnxruntime.transformers.fusion_options import FusionOptions

    options = FusionOptions(model_type)
    fusions = sorted(name for name in vars(options) if name.startswith("enable_"))
    for name in fusions:
        setattr(options, name, False)
    # Not a fusion: without it SkipLayerNormalization and float16 conversion do not see types and shapes.
    options.enable_shape_inference = True
    for name in switched_on:
        if name not in fusions:
            raise BuildError(
                f"onnxruntime {onnxruntime.__version__} has no fusion {name!r} for {model_type}. "
                f"It has: {', '.join(fusions)}."
            )
        setattr(options, name, True)
    return options


def _optimize(
    source: Path, path: Path, *, model_type: str, switched_on: Mapping[str, Sequence[str]], half: bool,
    float32: Sequence[str], float32_ops: Sequence[str],
) -> None:  # fmt: skip
    from onnxruntime.transformers.optimizer import optimize_model

    options = fusion_options(model_type, [name for names in switched_on.values() for name in names])
    try:
        model = optimize_model(
            str(source), model_type=model_type, opt_level=0, optimization_options=options, use_gpu=True
        )
        if half:
            add_types(model.model.graph, source)
            model.convert_float_to_float16(
                keep_io_types=list(float32), node_block_list=_float32_nodes(model.model.graph, float32_ops)
            )
            drop_repeated_nodes(model.model.graph)
            drop_round_trips(model.model.graph)
            drop_types_of_weights(model.model.graph)
        model.save_model_to_file(str(path), use_external_data_format=True)
    except _MISHAPS as error:
        raise _ort_failures.failed(error, switched_on) from error


def add_types(proto: Any, source: Path) -> None:
    """Say which type the values of the exported graph have, where the optimized one does not.

    The converter puts casts around what stays in float32, but only where it knows the types. A traced export says
    none, and onnxruntime's own inference of them fails at NhwcConv.
    """
    import onnx

    inferred = onnx.shape_inference.infer_shapes(onnx.load(source, load_external_data=False)).graph.value_info
    typed = {value.name for value in proto.value_info}
    made = {name for node in graph.all_nodes(proto) for name in node.output}
    for value in inferred:
        if value.name in made - typed:
            value.type.tensor_type.ClearField("shape")
            proto.value_info.append(value)


def _float32_nodes(proto: Any, ops: Container[str]) -> list[str]:
    """Return names of the nodes that compute the timestep's sinusoids, and of those of the given operators.

    torch computes sinusoids in float32 too: in float16 an angle of 999 is off by up to 0.25 radians.
    """
    producers = {name: node for node in proto.node for name in node.output}
    waiting = [node for node in proto.node if node.op_type in ("Sin", "Cos")]
    kept: dict[str, None] = {}
    while waiting:
        node = waiting.pop()
        if node.name not in kept:
            kept[node.name] = None
            waiting.extend(producers[name] for name in node.input if name in producers)
    return [*kept, *(node.name for node in proto.node if node.op_type in ops and node.name not in kept)]


def drop_repeated_nodes(proto: Any) -> None:
    """Remove nodes that are equal to an earlier one, output names included.

    The converter of onnxruntime 1.31 casts an input once for every float32 node that reads it, each time to the same
    name, which makes the graph invalid; 1.32 does so no more.
    """
    seen: set[bytes] = set()
    kept = []
    for node in proto.node:
        text = node.SerializeToString(deterministic=True)
        if text not in seen:
            seen.add(text)
            kept.append(node)
    if len(kept) < len(proto.node):
        copies = [type(node).FromString(node.SerializeToString()) for node in kept]
        del proto.node[:]
        proto.node.extend(copies)


def drop_round_trips(proto: Any) -> None:
    """Let a node that reads float32 take a float32 input of the graph itself, and not its way through float16.

    The converter casts an input that keeps its type to float16 first, and for a node that it leaves in float32 back
    again: float16 cannot tell the timestep 980.6 from 980.5.
    """
    import onnx

    float32, float16 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
    inputs = {value.name for value in proto.input if value.type.tensor_type.elem_type == float32}
    casts = {node.output[0]: node for node in proto.node if node.op_type == "Cast"}
    halved = {name: node.input[0] for name, node in casts.items() if _casts(node, inputs, float16)}
    exact = {name: halved[node.input[0]] for name, node in casts.items() if _casts(node, halved, float32)}
    for node in graph.all_nodes(proto):
        node.input[:] = [exact.get(name, name) for name in node.input]
    for name in (*exact, *halved):  # in this order: the former read the latter
        read = {name for node in graph.all_nodes(proto) for name in node.input} | {value.name for value in proto.output}
        if name not in read:
            proto.node.remove(casts[name])


def drop_types_of_weights(proto: Any) -> None:
    """Leave the types of weights to the weights themselves, where an export says them a second time.

    The converter says float16 of each, also of one that only float32 nodes read and that it leaves in float32.
    """
    weights = {tensor.name for tensor in proto.initializer}
    kept = [value for value in proto.value_info if value.name not in weights]
    if len(kept) < len(proto.value_info):
        copies = [type(value).FromString(value.SerializeToString()) for value in kept]
        del proto.value_info[:]
        proto.value_info.extend(copies)


def _casts(node: Any, names: Container[str], dtype: int) -> bool:
    return node.input[0] in names and any(part.name == "to" and part.i == dtype for part in node.attribute)


@contextlib.contextmanager
def failures_logged() -> Iterator[Counter[str]]:
    """Collect what the optimizer's modules log as a failure, at any level, with the number of times."""
    found: Counter[str] = Counter()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            # Below a warning only the fusions themselves count: the matcher reports every path that it tried.
            refused = record.module.startswith("fusion_") and _FAILURE.search(text)
            if record.levelno >= logging.WARNING or refused:
                found[f"{record.module}: {text}"] += 1

    collector = Collector()
    loggers = _optimizer_loggers()
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(collector)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield found
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(collector)
            logger.setLevel(level)
            logger.propagate = propagate


def _optimizer_loggers() -> list[logging.Logger]:
    """Return the loggers of the optimizer's modules, which import each other as top-level modules."""
    importlib.import_module("onnxruntime.transformers.optimizer")
    for late in ("shape_infer_helper", "float16"):
        importlib.import_module(late)
    folder = f"{os.sep}onnxruntime{os.sep}"
    return [
        logging.getLogger(name)
        for name, part in list(sys.modules.items())
        if folder in str(getattr(part, "__file__", ""))
    ]


def summary(notes: Mapping[str, int]) -> list[str]:
    """Turn logged failures into lines, most frequent first, at most 20, without paths of this machine."""
    ordered = sorted(notes.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"{text} ({times} times)" if times > 1 else text for text, times in ordered[:_MAX_NOTES]]
    if len(ordered) > _MAX_NOTES:
        lines.append(f"and {len(ordered) - _MAX_NOTES} further messages")
    return lines
