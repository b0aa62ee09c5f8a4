"""From a case that disagrees with its reference to the first place that does, and files that show it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.agreement.steps import first_beyond
from pytest_sdperf.checks.agreement.tensors import compare
from pytest_sdperf.checks.locate import graphs, modules
from pytest_sdperf.checks.locate.target import SearchTarget, torch_outputs
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.core import progress
from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.interpreter import pip
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values.located import Located
from pytest_sdperf.core.values.outcomes import Agreement
from pytest_sdperf.tasks._execution import Ran, RunCase

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

_OWN_PIPELINE = (
    "A pipeline of your own is not looked into, and no files are made: what your code did to its parts cannot be "
    "written down. Name its parts to find out more: --sdperf-model=NAME with "
    "--sdperf-weights=FOLDER builds the same components from the same weights."
)
_MISSING = re.compile(r"No module named '([\w.]+)'")
_ACCUMULATED = (
    "Given what it was given in this request, each component agrees with its reference: what went wrong lies between "
    "them, or adds up over the steps."
)


def locate(runner: CaseRunner, found: Sequence[Agreement], *, settings: Settings) -> Located:
    """Find where a case first leaves its reference.

    Args:
        runner: The case; it was compared, and disagrees.
        found: What the comparison said.
        settings: Say where files that show the fault are put, and whose weights they may hold.

    Returns:
        The place. What hinders the search is told there: a search never raises what a comparison did not.
    """
    try:
        return _locate(runner, found, folder=settings.reproductions, real_weights=settings.real_weights)
    except Exception as error:  # noqa: BLE001 - whatever it is, what the comparison said must stand
        return Located(runner.case.component, "hidden", told=_failed(error))


def _failed(error: Exception) -> str:
    """Say why nobody could look inside, and what to install where a package is missing."""
    lines = str(error).strip().splitlines()
    told = f"Looking inside failed: {lines[0] if lines else error}"
    missing = _MISSING.search(told)
    if missing is None:
        return told
    package = missing[1].partition(".")[0]
    return f"{told}. The search computes with {package}; to have it, type: {pip()} install {package}"


def _locate(runner: CaseRunner, found: Sequence[Agreement], *, folder: Path, real_weights: bool) -> Located:
    if isinstance(runner, ExternalPipelineRunner):
        return Located(runner.case.component, "hidden", told=_OWN_PIPELINE)
    if not runner.is_pipeline:
        return _answer(SearchTarget(runner, runner.inputs()), folder=folder, real_weights=real_weights)
    for target in _questions(runner, found):
        if _agrees(target):
            continue
        return _answer(target, folder=folder, real_weights=real_weights)
    return Located(runner.case.component, "spread", told=_ACCUMULATED)


def _answer(target: SearchTarget, *, folder: Path, real_weights: bool) -> Located:
    runner = target.runner
    search = modules.search if runner.engine.consumes == "module" else graphs.search
    with progress.step(f"looking where {runner.case.model} {runner.case.component} goes wrong"):
        located = search(target, folder=folder, real_weights=real_weights)
    return dataclasses.replace(located, call=target.call)


def _questions(runner: CaseRunner, found: Sequence[Agreement]) -> list[SearchTarget]:
    """Return each component of a request with what it was given in the call where the request first goes wrong."""
    steps = next((one.steps for one in found if one.steps), ())
    number = first_beyond(steps) or len(steps) or int(runner.outputs()["unet_calls"])
    # A text encoder is called for the empty prompt first.
    calls = {name: {"unet": number, "vae_decoder": 1}.get(name, 2) for name in runner.components}
    with progress.step(f"keeping what the components of {runner.case.model} are given"):
        kept = runner.task("run", RunCase(runner.execution(), keep=calls), Ran).kept
    return [
        SearchTarget(_alone(runner, name), load_arrays(Path(kept[name])), call=f"call {calls[name]} of the {name}")
        for name in runner.components
    ]


def _alone(runner: CaseRunner, component: str) -> CaseRunner:
    case = dataclasses.replace(runner.case, component=component, steps=0, scheduler="")
    return dataclasses.replace(runner, case=case)


def _agrees(target: SearchTarget) -> bool:
    """Whether a component gives what its reference gives, for these inputs."""
    runner = target.runner
    if not by_torch(runner):
        return False  # whoever looks inside will see
    exact, plain = map(load_arrays, torch_outputs(target, exact_and_rough(runner.dtype)).values())
    return compare(runner.run(target.inputs), exact, plain=plain, level="component", dtype=runner.dtype).passed
