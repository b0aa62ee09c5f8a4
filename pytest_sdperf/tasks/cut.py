"""Cut a module of torch out of its component, with what it is called with and what it should give."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import Execution, ShowingFiles

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.tracing.cut_module import ModuleCall


@dataclass(frozen=True)
class CutModule:
    """Cut a module out of its component.

    Attributes:
        case: The component, as plain torch loads it.
        weights: File that the engine loads.
        right_weights: The one that the reference loads.
        dtype: The type that is tested.
        modules: Paths to try, each with the number of its call; empty for the largest child.
        recipe: How the engine calls it.
    """

    case: Execution
    weights: Path
    right_weights: Path
    dtype: str
    modules: tuple[tuple[str, int], ...]
    recipe: ModuleRecipe


@dataclass(frozen=True)
class ModuleCut:
    """What was cut out.

    Attributes:
        files: Folders with files that may show the fault.
        others: Names of the module's weights that are not those of the reference.
        why: Why none could be cut out; empty if one was.
    """

    files: tuple[ShowingFiles, ...] = ()
    others: tuple[str, ...] = ()
    why: str = ""


def run(request: CutModule, context: TaskContext) -> ModuleCut:
    """Write files for the first of several modules that can be cut out."""
    import torch

    from pytest_sdperf.tracing.cut_module import UncuttableError, building, call_of

    case, recipe = request.case, request.recipe
    model, component = context.catalog.models.get(case.model), case.component
    device, dtype, why = recipe.device, request.dtype, ""
    how = {"dtype": dtype, "device": device}
    whole = model.module(component, weights=request.right_weights, **how)
    given = load_arrays(case.inputs)
    inputs = [
        torch.from_numpy(given[spec.name]).to(device, getattr(torch, dtype if spec.dtype == "float" else spec.dtype))
        for spec in model.inputs(component, case.workload)
    ]
    for path, number in request.modules or [(_largest(whole), 1)]:
        context.say(f"cutting {path} out of the {component}")
        try:
            built, call = building(whole, path, model.config(component)), call_of(whole, path, number, inputs)
            call.written()
        except UncuttableError as error:
            why = why or str(error)
            continue
        right, own = whole.get_submodule(path), whole.get_submodule(path)
        if request.weights != request.right_weights:
            own = model.module(component, weights=request.weights, **how).get_submodule(path)
        shared: dict[str, Any] = {"built": built, "recipe": recipe, "path": path, "dtype": dtype}
        drawn = _drawn(own, call)
        files = []
        for name, loaded, calculated, one in (("random", drawn[0], *drawn), ("real", own, right, call)):
            folder = context.out_dir / name
            _write(folder, loaded, calculated, one, **shared)
            files.append(ShowingFiles(str(folder), name))
        return ModuleCut(tuple(files), tuple(_others(own, right)))
    return ModuleCut(why=why)


def _others(own: torch.nn.Module, right: torch.nn.Module) -> list[str]:
    """Return the names of the parameters that differ."""
    import torch

    wanted = dict(right.named_parameters())
    return [name for name, held in own.named_parameters() if not torch.equal(held, wanted[name])]


def _largest(whole: torch.nn.Module) -> str:
    """Return the name of the child with the most parameters: what its wrapper adds is no class of a library."""
    sizes = {name: sum(one.numel() for one in child.parameters()) for name, child in whole.named_children()}
    return max(sizes, key=lambda name: sizes[name])


def _drawn(part: torch.nn.Module, call: ModuleCall) -> tuple[torch.nn.Module, ModuleCall]:
    """Return a module and its call with random numbers in place of weights and inputs."""
    import numpy as np
    import torch

    from pytest_sdperf.tracing.redrawn import numbers_like

    generator = np.random.default_rng(0)

    def drawn(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        array = numbers_like(tensor.detach().float().cpu().numpy(), generator)
        return torch.from_numpy(array).to(tensor.device, tensor.dtype)

    other = copy.deepcopy(part)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.copy_(drawn(parameter))
    return other, call.with_tensors({name: drawn(tensor) for name, tensor in call.written()[1].items()})


def _write(
    folder: Path,
    loaded: torch.nn.Module,
    calculated: torch.nn.Module,
    call: ModuleCall,
    *,
    built: tuple[str, str, dict[str, Any]],
    recipe: ModuleRecipe,
    path: str,
    dtype: str,
) -> None:
    """Write what a module holds and what another one, which is right, makes of the same call."""
    import torch

    from pytest_sdperf.core.reference_error import REFERENCE
    from pytest_sdperf.tracing import cut_module
    from pytest_sdperf.tracing.distances import limit_of

    wide = getattr(torch, REFERENCE[dtype])
    tensors = call.written()[1]
    wider = {name: one.to(wide) if one.is_floating_point() else one for name, one in tensors.items()}
    with torch.inference_mode():
        (plain, _), (exact, taken) = (
            cut_module.first_tensor(module(*one.arguments, **one.named))
            for module, one in (
                (calculated, call),
                (copy.deepcopy(calculated).to(wide), call.with_tensors(wider)),
            )
        )
    limit = limit_of(plain, exact, dtype=dtype)
    buffers = dict(loaded.named_buffers())
    weights = {**dict(loaded.named_parameters()), **buffers}
    cut_module.write(
        folder, built=built, weights=weights, buffers=list(buffers), call=call, taken=taken, expected=exact,
        limit=limit, recipe=recipe, path=path,
    )  # fmt: skip
