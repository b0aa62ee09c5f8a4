"""Does a graph that somebody exported take what a model's requests give, and return what they need?"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_sdperf.builds.external_graph import ExternalGraph, ExternalTensor
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.values import TensorSpec, Workload
from pytest_sdperf.tasks.import_graph import Interface, Port

_KINDS: Mapping[str, tuple[str, ...]] = {
    "float": ("float32", "float16"),
    # One number such as a timestep may have any type; it is given as float32 and cast.
    "float32": ("float32", "float16", "int64", "int32"),
    "int64": ("int64", "int32"),
}
_HIDDEN = re.compile(r"hidden_states\.(\d+)")
_PENULTIMATE = "penultimate_hidden_state"


def fit(
    graph: ExternalGraph, model: Model, component: str, workload: Workload, *, others: Iterable[Model]
) -> Interface:
    """Match the inputs and outputs of a graph with those of a model.

    Args:
        graph: The graph.
        model: What the user says it is.
        component: Which of its components.
        workload: The sizes of a request; static sizes of the graph must be these.
        others: Models that it might be instead.

    Raises:
        BuildError: It does not fit. The text says what it has, what is expected, and what to type.
    """
    interface, problems = _match(graph, model.inputs(component, workload), model.outputs(component, workload))
    if not problems:
        return interface
    expected = ", ".join(map(_described, model.inputs(component, workload)))
    has = ", ".join(map(str, graph.inputs)) or "nothing"
    returned = ", ".join(map(_described, model.outputs(component, workload)))
    returns = ", ".join(map(str, graph.outputs)) or "nothing"
    raise BuildError(
        f"{graph.path} is no {component} of {model.name} as it was asked for: {'; '.join(problems)}. It takes {has} "
        f"and returns {returns}. Expected: {expected} and {returned}. "
        f"{_advice(graph, model, component, workload, others)}"
    )


def _match(
    graph: ExternalGraph, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[Interface, list[str]]:
    problems: list[str] = []
    taken = _paired(graph.inputs, inputs)
    ports = []
    for spec in inputs:
        tensor = taken.get(spec.name)
        if tensor is None:
            problems.append(f"it has no input {spec.name}")
            continue
        problems += _differences(tensor, spec)
        ports.append(_port(tensor, spec))
    used = {port.given for port in ports}
    problems += [f"its input {tensor.name} is not known" for tensor in graph.inputs if tensor.name not in used]
    found = _paired(graph.outputs, outputs, aliases=_penultimate(graph.outputs))
    returned = []
    for spec in outputs:
        tensor = found.get(spec.name)
        if tensor is None:
            problems.append(f"it has no output {spec.name}")
            continue
        problems += _differences(tensor, spec)
        returned.append(Port(tensor.name, spec.name))
    return Interface(tuple(ports), tuple(returned)), problems


def _paired(
    tensors: Sequence[ExternalTensor], specs: Sequence[TensorSpec], *, aliases: Mapping[str, str] | None = None
) -> dict[str, ExternalTensor]:
    """Return name in the model -> tensor. Where there is one of each, its name does not matter."""
    by_name = {tensor.name: tensor for tensor in tensors}
    if len(tensors) == len(specs) == 1:
        return {specs[0].name: tensors[0]}
    names = {spec.name: (aliases or {}).get(spec.name, spec.name) for spec in specs}
    return {name: by_name[given] for name, given in names.items() if given in by_name}


def _penultimate(outputs: Sequence[ExternalTensor]) -> dict[str, str]:
    """Find the hidden state before the last among those that optimum numbers."""
    numbers = sorted(int(found.group(1)) for tensor in outputs if (found := _HIDDEN.fullmatch(tensor.name)))
    named = any(tensor.name == _PENULTIMATE for tensor in outputs)
    return {_PENULTIMATE: f"hidden_states.{numbers[-2]}"} if len(numbers) > 1 and not named else {}


def _differences(tensor: ExternalTensor, spec: TensorSpec) -> list[str]:
    found = []
    allowed = _KINDS.get(spec.dtype, (spec.dtype,))
    if tensor.dtype not in allowed:
        found.append(f"{tensor.name} is {tensor.dtype}, not {' or '.join(allowed)}")
    if math.prod(spec.shape) == 1 and len(tensor.dims) <= 1:
        return found
    if len(tensor.dims) != len(spec.shape):
        return [*found, f"{tensor.name} has {len(tensor.dims)} axes, not {len(spec.shape)}"]
    for axis, (size, wanted) in enumerate(zip(tensor.dims, spec.shape, strict=True)):
        if isinstance(size, int) and size != wanted:
            found.append(f"axis {axis} of {tensor.name} is {size}, not {wanted}")
    return found


def _port(tensor: ExternalTensor, spec: TensorSpec) -> Port:
    wanted = tuple(size if isinstance(size, int) else 1 for size in tensor.dims)
    if math.prod(spec.shape) == 1 and len(tensor.dims) <= 1 and wanted != spec.shape:
        return Port(tensor.name, spec.name, spec.shape, wanted)
    return Port(tensor.name, spec.name)


def _described(spec: TensorSpec) -> str:
    return f"{spec.name} {spec.dtype} [{', '.join(map(str, spec.shape))}]"


def _advice(graph: ExternalGraph, model: Model, component: str, workload: Workload, others: Iterable[Model]) -> str:
    flags = _sizes(graph, model, component, workload)
    if flags:
        return f"Type {' '.join(flags)}, or export it for these sizes or with dynamic axes."
    names = [other.name for other in others if other.name != model.name and _could_be(graph, other, component)]
    if names:
        return f"It fits --model={names[0]}" + (f" (or {', '.join(names[1:])})." if names[1:] else ".")
    return "No model that is registered takes these; register one in a conftest.py, or export it with these names."


def _could_be(graph: ExternalGraph, other: Model, component: str) -> bool:
    usual = Workload(height=other.height, width=other.width)
    if component not in other.components:
        return False
    fitting = not _match(graph, other.inputs(component, usual), other.outputs(component, usual))[1]
    return fitting or bool(_sizes(graph, other, component, usual))


def _sizes(graph: ExternalGraph, model: Model, component: str, workload: Workload) -> list[str]:
    """Return the options that ask for the sizes that the graph fixes; none if others would not help."""
    tensors = _paired(graph.inputs, model.inputs(component, workload))
    sizes: dict[str, Any] = {"batch": workload.batch_size, "height": workload.height, "width": workload.width}
    for spec in model.inputs(component, workload):
        dims = tensors[spec.name].dims if spec.name in tensors else ()
        for axis, name in spec.axes.items():
            size = dims[axis] if axis < len(dims) else "?"
            kind = name.removeprefix("latent_")
            if isinstance(size, int) and kind in sizes:
                now = getattr(workload, "batch_size" if kind == "batch" else kind)
                sizes[kind] = size * now / spec.shape[axis]
    if any(value != int(value) or value < 1 for value in sizes.values()):
        return []
    asked = dataclasses.replace(
        workload, batch_size=int(sizes["batch"]), height=int(sizes["height"]), width=int(sizes["width"])
    )
    if asked == workload or _match(graph, model.inputs(component, asked), model.outputs(component, asked))[1]:
        return []
    flags = [f"--batch-size={asked.batch_size}"] if asked.batch_size != workload.batch_size else []
    if (asked.height, asked.width) != (workload.height, workload.width):
        flags.append(f"--resolution={asked.width}x{asked.height}")
    return flags
