"""What one case is compared with, whatever computes it; from the cache if it is there.

What is not there yet is computed in one process, because most of its time is the import of torch and diffusers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pytest_sdperf.builds.execution.calls import ReplayCall, by_call
from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references import float32_graph, plain_pipeline, plain_torch
from pytest_sdperf.checks.references.kinds import why_random
from pytest_sdperf.checks.references.stored import Stored
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.core.errors import BuildError, NoReferenceError, SdperfError, WorkerError
from pytest_sdperf.core.files.arrays import Arrays
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.values import roundings


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the outputs of a case are compared with.

    Attributes:
        dtype: Dtype that is tested.
        exact: Outputs of the reference.
        rough: Outputs in the dtype that is tested: the plain run.
        by: What computed both.
        reference: Dtype of the reference.
        remark: What is to be known of the reference error where the limit is beyond it, as a sentence; mostly empty.
    """

    dtype: str
    exact: Arrays
    rough: Arrays
    by: str
    reference: str
    remark: str = ""


def reference_of(runner: CaseRunner) -> Reference:
    """Return what the outputs of a case are compared with.

    Raises:
        NoReferenceError: There is nothing.
        SdperfError: It could not be computed.
    """
    dtype = runner.dtype
    if why := why_random(runner):
        raise NoReferenceError(why)
    if not by_torch(runner):
        exact, rough, remark = float32_graph.outputs(runner, dtype)
        return Reference(dtype, exact, rough, float32_graph.BY, float32_graph.REFERENCE, remark)
    higher, _ = both = exact_and_rough(dtype)
    try:
        found = references(runner, both)
    except NoReferenceError:
        raise
    except SdperfError as error:
        text = f"torch could not compute the {higher} reference: {error}"
        if isinstance(error, WorkerError):
            raise WorkerError(text, reason=error.reason, tail=error.tail) from error
        raise BuildError(text) from error
    return Reference(dtype, found[higher], found[dtype], "torch", higher)


def other_roundings(runner: CaseRunner, dtype: str) -> list[Arrays]:
    """Return what the plain run of a request computes when its initial latents are rounded otherwise.

    Raises:
        SdperfError: It could not run.
    """
    if by_torch(runner):
        return list(references(runner, roundings.labels(dtype)).values())
    numbers = range(1, roundings.OTHERS + 1)
    return [float32_graph.outputs(runner, dtype, rounding=number)[1] for number in numbers]


def references(runner: CaseRunner, dtypes: Sequence[str]) -> dict[str, Arrays]:
    """Return what torch computes for the same weights and inputs, by dtype.

    A dtype may carry the number of a rounding (`roundings.labels`).
    """
    return _outputs(runner, dtypes).read()


def _outputs(runner: CaseRunner, dtypes: Sequence[str]) -> Stored:
    if isinstance(runner, ExternalPipelineRunner):
        return plain_pipeline.outputs(runner, dtypes)
    return plain_torch.outputs(runner, dtypes)


def answers(
    runner: CaseRunner, groups: Sequence[Sequence[ReplayCall]], dtypes: Sequence[str]
) -> list[dict[str, Sequence[Arrays]]]:
    """Return what torch answers to groups of calls: of each group, by dtype, the outputs of each call.

    Args:
        runner: Of the case whose weights are taken.
        groups: Calls that belong together.
        dtypes: Dtypes in which torch answers, each with the number of a rounding where it has one.

    Raises:
        SdperfError: Torch could not run.
    """
    asked = {f"{number}-{dtype}": (group, dtype) for number, group in enumerate(groups) for dtype in dtypes}
    if isinstance(runner, ExternalPipelineRunner):
        stored = plain_pipeline.answers(runner, asked)
    else:
        stored = plain_torch.answers(runner, asked)
    found = stored.read()
    return [
        {dtype: by_call(found[f"{number}-{dtype}"], len(group)) for dtype in dtypes}
        for number, group in enumerate(groups)
    ]
