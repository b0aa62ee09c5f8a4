"""The joints of a component (`tracing.joints`): where a graph holds them, and whether what an engine has agrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.values import Workload, roundings
from pytest_sdperf.core.values.outcomes import JointAgreement
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import Execution

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.tracing import joints


@dataclass(frozen=True)
class Place:
    """Where a graph holds what is at a joint.

    Attributes:
        value: Name of the value.
        order: Order of the joint's axes in which it holds that.
    """

    value: str
    order: tuple[int, ...]


@dataclass(frozen=True)
class FindPlaces:
    """Find the joints of a component in a graph.

    Attributes:
        model, component, workload: Whose; the graph takes these shapes.
        weights: File (safetensors) of the module.
        graph: A build of it.
    """

    model: str
    component: str
    workload: Workload
    weights: Path
    graph: Path


@dataclass(frozen=True)
class PlacesFound:
    """What was found.

    Attributes:
        places: Joint -> place; without those that were fused away.
    """

    places: Mapping[str, Place]


@dataclass(frozen=True)
class CompareJoints:
    """Compare what an engine has at joints with plain torch.

    Attributes:
        case: The component, as plain torch loads it.
        obtained: Files (npz) with what the engine has, outputs and inside.
        places: Joint -> where these hold it; empty where they have the names of joints.
        dtype: The type that is tested.
        least: No error of plain torch counts as less.
    """

    case: Execution
    obtained: tuple[Path, ...]
    places: Mapping[str, Place]
    dtype: str
    least: float


@dataclass(frozen=True)
class JointsCompared:
    """What came of it.

    Attributes:
        joints: In the order of the data flow.
        blocks: How many blocks give something of their own.
        roundings: In how many roundings plain torch was looked at, of which the largest error counts.
    """

    joints: tuple[JointAgreement, ...]
    blocks: int
    roundings: int


def find(request: FindPlaces, context: TaskContext) -> PlacesFound:
    """Compute a module and a graph of it in float32, and find what blocks read and give in the graph."""
    import numpy as np
    import onnx_ir as ir
    import torch

    from pytest_sdperf.tasks.exact import inputs_of
    from pytest_sdperf.tracing import joints, reference, section
    from pytest_sdperf.tracing.held import held_by

    model, component = context.catalog.models.get(request.model), request.component
    context.say(f"looking where the graph of {request.model} {component} holds what its blocks give")
    graph = reference.load(request.graph).graph
    module = model.module(component, weights=request.weights).eval()
    held = held_by(graph)
    with torch.inference_mode():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(np.array(held.parameter(parameter.numpy()))))
    inputs = inputs_of(model, component, request.workload)
    shown = section.inner_values(ir.load(request.graph).graph)
    found = joints.values_of(graph, shown, module, inputs)
    return PlacesFound({joint: Place(*place) for joint, place in found.items()})


def compare(request: CompareJoints, context: TaskContext) -> JointsCompared:
    """Walk through the module in the reference type and in the type that is tested, with what the engine has."""
    import torch

    from pytest_sdperf.engines._torch import set_tf32
    from pytest_sdperf.tasks.request.text_to_image import rounded_otherwise
    from pytest_sdperf.tracing import joints

    case, device = request.case, request.case.torch_device
    model, component = context.catalog.models.get(case.model), case.component
    context.say(f"comparing what is inside the {component}, block by block")
    set_tf32(allowed=False)
    arrays = {name: array for path in request.obtained for name, array in load_arrays(path).items()}
    obtained = joints.of_arrays(arrays, {joint: (one.value, one.order) for joint, one in request.places.items()})
    given, names = load_arrays(case.inputs), [spec.name for spec in model.outputs(component, case.workload)]
    weights, specs = case.parts[component].build.path, model.inputs(component, case.workload)

    def loaded(dtype: str) -> Callable[[int], joints.Walk]:
        module = model.module(component, weights=weights, dtype=dtype, device=device).eval()
        types = [getattr(torch, dtype if spec.dtype == "float" else spec.dtype) for spec in specs]

        def walk(number: int) -> joints.Walk:
            def rounded(tensor: torch.Tensor) -> torch.Tensor:
                moves = number and tensor.is_floating_point()
                return rounded_otherwise(tensor, number, getattr(torch, dtype)) if moves else tensor

            tensors = (torch.from_numpy(given[spec.name]) for spec in specs)
            inputs = [rounded(tensor.to(device, kind)) for tensor, kind in zip(tensors, types, strict=True)]
            return joints.Walk(obtained, rounded).through(module, inputs, names)

        return walk

    higher, dtype = exact_and_rough(request.dtype)
    exact, walk = loaded(higher)(0), loaded(dtype)
    plain = [walk(0)]
    found = tuple(joints.compared(exact, plain, obtained, dtype=dtype, least=request.least))
    if not all(one.passed for one in found):  # one rounding is one draw
        plain += map(walk, range(1, 1 + roundings.OTHERS))
        found = tuple(joints.compared(exact, plain, obtained, dtype=dtype, least=request.least))
    return JointsCompared(found, plain[0].blocks, len(plain))
