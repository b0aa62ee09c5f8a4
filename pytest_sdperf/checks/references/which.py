"""Which reference a case has."""

from __future__ import annotations

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.values import Case


def by_torch(runner: CaseRunner) -> bool:
    """Whether torch computes what a case is compared with; else a float32 graph does."""
    return not runner.case.exporter or runner.context.settings.selection.has_module


def is_comparable(runner: CaseRunner) -> bool:
    """Whether there is anything that a case can be compared with."""
    return by_torch(runner) or runner.context.builder.reference is not None


def check_by_torch(runner: CaseRunner, what: str) -> None:
    """Check that torch computes what a case is compared with: a float32 graph stands for nothing but its outputs.

    Raises:
        NoReferenceError: It does not; `what` of the case has nothing that it could be compared with.
    """
    if not by_torch(runner):
        raise NoReferenceError(
            f"nothing to compare the {what} of {runner.case.model} with: --sdperf-onnx-dir holds graphs alone. Type "
            f"--sdperf-weights=FOLDER with the diffusers folder that they were exported from."
        )


def subject_of(case: Case) -> tuple[object, ...]:
    """Return what torch computes references of: cases that are equal in it have them in common."""
    return (case.model, case.component, case.workload, case.weights)
