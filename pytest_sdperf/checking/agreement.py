"""Correct before fast: what an engine computes against torch in higher precision.

The tolerance is derived. Plain torch in the same floating type, against the same reference, is the yardstick; an
optimized build may be at most `FACTOR` times as far away (`comparing`). Every tensor is first checked finite.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.building.cache import content_key
from pytest_sdperf.building.fingerprint import library_versions, source_hash
from pytest_sdperf.building.outputs import Compute, cached_outputs
from pytest_sdperf.checking import graph_reference
from pytest_sdperf.checking.given_pipeline import GivenPipelineRunner
from pytest_sdperf.comparing.remedies import remedies
from pytest_sdperf.comparing.request import compare_request
from pytest_sdperf.comparing.roundings import judged_by_several
from pytest_sdperf.comparing.tensors import compare
from pytest_sdperf.components import component_floating, upcasts
from pytest_sdperf.errors import BuildError, NoReferenceError, SdperfError, WorkerError
from pytest_sdperf.executing.runner import CaseRunner
from pytest_sdperf.faults import planting
from pytest_sdperf.settings import EngineRequest
from pytest_sdperf.values import roundings
from pytest_sdperf.values.outcomes import Agreement
from pytest_sdperf.yardsticks import REFERENCE

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]


def agree(runner: CaseRunner) -> tuple[Agreement, ...]:
    """Execute a case once and compare its outputs with the reference, level by level along the data flow.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch as the reference, could not run.
    """
    floating = floating_of(runner)
    if by_torch(runner):
        wanted = _wanted(runner, floating)
        exact, rough, by = wanted[REFERENCE[floating]], wanted[floating], "torch"
    else:
        exact, rough = graph_reference.graph_reference(runner, floating)
        by = graph_reference.BY
    advice = remedies(runner.case, upcasts=_upcasts(runner)) if runner.floating == "float16" else {}
    if runner.is_pipeline:
        obtained = runner.outputs()

        def compare_with(plain: Arrays) -> tuple[Agreement, ...]:
            return compare_request(obtained, exact, plain=plain, floating=floating, by=by, remedies=advice)

        others = functools.partial(other_roundings, runner, floating)
        return judged_by_several(compare_with(rough), others, compare_with)
    agreement = compare(runner.outputs(), exact, plain=rough, level="component", floating=floating)
    told = "" if math.isfinite(agreement.error + agreement.limit) else advice.get(runner.case.component, "")
    return (dataclasses.replace(agreement, by=by, told=told),)


def _wanted(runner: CaseRunner, floating: str) -> dict[str, Arrays]:
    """Return reference and yardstick, or say that torch could not compute them."""
    try:
        return references(runner, (REFERENCE[floating], floating))
    except NoReferenceError:
        raise
    except SdperfError as error:
        text = f"torch could not compute the {REFERENCE[floating]} reference: {error}"
        if isinstance(error, WorkerError):
            raise WorkerError(text, reason=error.reason, tail=error.tail) from error
        raise BuildError(text) from error


def other_roundings(runner: CaseRunner, floating: str) -> list[Arrays]:
    """Return what the yardstick of a request computes when its initial latents are rounded otherwise.

    Raises:
        SdperfError: It could not run.
    """
    if by_torch(runner):
        return list(references(runner, roundings.labels(floating)).values())
    return graph_reference.other_roundings(runner, floating)


def _upcasts(runner: CaseRunner) -> bool:
    if isinstance(runner, GivenPipelineRunner):
        return runner.description.upcasts_decoder
    return upcasts(runner.model)


def by_torch(runner: CaseRunner) -> bool:
    """Whether torch computes what a case is compared with; else a float32 graph does."""
    return not runner.case.exporter or runner.workbench.settings.selection.has_module


def is_comparable(runner: CaseRunner) -> bool:
    """Whether there is anything that a case can be compared with."""
    return by_torch(runner) or runner.workbench.builder.reference is not None


def floating_of(runner: CaseRunner) -> str:
    """Return the floating type in which a case is compared: that of its component, or of its pipeline."""
    given = runner.workbench.builder.given
    if given is not None and runner.case.exporter:
        return runner.floating
    return (
        runner.floating
        if runner.is_pipeline
        else component_floating(runner.model, runner.case.component, runner.floating)
    )


def references(runner: CaseRunner, floatings: Sequence[str]) -> dict[str, Arrays]:
    """Return what torch computes for the same weights and inputs, by floating type; from the cache if it is there.

    A floating type may carry the number of a rounding (`roundings.labels`).

    What is not there yet is computed in one process, because most of its time is the import of torch and diffusers.
    """
    keys, compute = _computing(runner, floatings)
    return cached_outputs(runner.workbench.cache, keys, compute)


def missing_references(runner: CaseRunner, floatings: Sequence[str]) -> tuple[str, ...]:
    """Return the floating types in which torch has yet to compute a reference."""
    keys, _ = _computing(runner, floatings)
    return tuple(floating for floating, key in keys.items() if not runner.workbench.cache.has(key))


def _computing(runner: CaseRunner, floatings: Sequence[str]) -> tuple[Mapping[str, str], Compute]:
    """Return the keys of references by floating type, and what computes those that the cache lacks."""
    if isinstance(runner, GivenPipelineRunner):
        return runner.reference_keys(floatings), runner.compute_references
    plain, case = plain_runner(runner), runner.case

    def compute(missing: Sequence[str]) -> Mapping[str, Any]:
        runner.workbench.say(f"computing references of {case.model} {case.component}: {roundings.in_words(missing)}")
        return plain.task("run", {**plain.arguments(), "floatings": list(missing)}, module="reference")

    task = "pytest_sdperf.tasks.reference"
    return {floating: reference_key(plain, task, {"floating": floating}) for floating in floatings}, compute


def plain_runner(runner: CaseRunner) -> CaseRunner:
    """Return what executes the same case with plain torch in float32."""
    case = dataclasses.replace(runner.case, engine="torch", engine_options=(), optimization="fp32")
    case = dataclasses.replace(case, fuser="", exporter="", opset=0, shapes="", fp32_ops="")
    request, plant = EngineRequest(label="torch", engine="torch"), planting.of_reference(runner.plant)
    return dataclasses.replace(runner, case=case, request=request, plant=plant)


def reference_key(plain: CaseRunner, task: str, more: Mapping[str, Any]) -> str:
    """Return the key of what plain torch computes for a case.

    Args:
        plain: What `plain_runner` returned.
        task: Dotted name of the task that computes it.
        more: What else decides the result.
    """
    parts = {
        "case": plain.case.key,
        "builds": {name: build.key for name, build in plain.builds().items()},
        **more,
        **planting.of_task(plain.plant),
        "device": plain.workbench.device.name,
        "code": source_hash(task, "pytest_sdperf.engines.torch_eager"),
        "versions": library_versions("torch", "diffusers", "transformers"),
    }
    return f"reference-{content_key(parts)}"
