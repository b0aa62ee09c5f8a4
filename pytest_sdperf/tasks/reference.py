"""Run a case in several dtypes, one after the other, in one process: references and plain runs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from pytest_sdperf.core.components import PIPELINE, component_dtype
from pytest_sdperf.core.values import roundings
from pytest_sdperf.tasks import TaskContext, component, pipeline
from pytest_sdperf.tasks._execution import Execution, RunCase


@dataclass(frozen=True)
class RunInDtypes:
    """Execute a case once per dtype.

    Attributes:
        case: The case.
        dtypes: Dtypes, each with the number of a rounding where it has one (`roundings.labels`).
        inside: As in `RunCase`.
    """

    case: Execution
    dtypes: tuple[str, ...]
    inside: bool = False


def run(request: RunInDtypes, context: TaskContext) -> dict[str, str]:
    """Run the case once per dtype, or once per rounding in it.

    Returns:
        Dtype as it was asked for -> path of the npz file with the outputs.
    """
    task = pipeline if request.case.component == PIPELINE else component
    paths = {}
    for label in request.dtypes:
        folder = context.out_dir / label
        folder.mkdir()
        own = dataclasses.replace(context, out_dir=folder)
        case = in_dtype(request.case, label, context)
        paths[label] = task.run(RunCase(case, inside=request.inside), own).outputs
    return paths


def in_dtype(case: Execution, label: str, context: TaskContext) -> Execution:
    """Return the same case in another dtype, which may have the number of a rounding (`roundings.labels`)."""
    model, (dtype, rounding) = context.catalog.models.get(case.model), roundings.parse(label)
    parts = {
        name: dataclasses.replace(
            part, build=dataclasses.replace(part.build, dtype=component_dtype(model, name, dtype))
        )
        for name, part in case.parts.items()
    }
    return dataclasses.replace(case, parts=parts).drawn_in(dtype, rounding)
