"""Run a pipeline of plain classes in several dtypes: reference and plain run of one that users made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values.roundings import parse
from pytest_sdperf.engines._torch import set_tf32
from pytest_sdperf.tasks import TaskContext, _plain_scheduler
from pytest_sdperf.tasks._execution import CallRequest, Execution
from pytest_sdperf.tasks._kept import StepLatents
from pytest_sdperf.tasks.request.whole_call import WholeCall, counted_calls, images_of


@dataclass(frozen=True)
class PlainPipeline:
    """A pipeline of plain classes.

    Attributes:
        folder: What `external_pipeline.write` wrote.
        watermark: Whether it marks its images.
    """

    folder: Path
    watermark: bool


@dataclass(frozen=True)
class RunPlain:
    """Run a pipeline once per dtype.

    Attributes:
        case: The case of the user's own pipeline.
        plain: What is run in its place.
        dtypes: Label -> dtype of each part. A label may carry the number of a rounding (`roundings.labels`).
    """

    case: Execution
    plain: PlainPipeline
    dtypes: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class PlainGroup:
    """Calls that are answered together.

    Attributes:
        calls: The calls.
        dtypes: Dtype of each part.
        rounding: Number of a rounding of the initial latents.
    """

    calls: tuple[CallRequest, ...]
    dtypes: Mapping[str, str]
    rounding: int


@dataclass(frozen=True)
class AnswerPlain:
    """Answer several groups of calls, one after the other.

    Attributes:
        case: The case of the user's own pipeline.
        plain: What answers in its place.
        groups: By name.
    """

    case: Execution
    plain: PlainPipeline
    groups: Mapping[str, PlainGroup]


def run(request: RunPlain, context: TaskContext) -> dict[str, str]:
    """Run the pipeline once per dtype; the user's own code takes no part.

    Returns:
        Label -> path of the npz file with the outputs.

    Raises:
        NoReferenceError: Noise is drawn at every step, and every dtype draws its own.
    """
    import numpy as np

    set_tf32(allowed=False)
    paths, picture = {}, request.case.picture
    for label, dtypes in request.dtypes.items():
        pipeline = _loaded(request.plain, dtypes, request.case.torch_device)
        call = WholeCall.of(pipeline, request.case.workload, prompt=picture.prompt, seed=picture.seed)
        with counted_calls(pipeline.unet) as calls:
            steps = StepLatents()
            found, drew = call.rounded_otherwise(parse(label)[1]).drawing(steps)
        check_deterministic(pipeline, drew=drew)
        outputs = {IMAGE: images_of(found).cpu().numpy(), "unet_calls": np.asarray(len(calls)), **steps.arrays()}
        folder = context.out_dir / label
        folder.mkdir()
        paths[label] = str(save_arrays(folder / "outputs.npz", outputs))
    return paths


def answer(request: AnswerPlain, context: TaskContext) -> dict[str, str]:
    """Make groups of calls, each with a pipeline of its own in its dtypes; the user's own code takes no part.

    Returns:
        Name -> path of the npz file with the outputs: `NUMBER.image`, calls numbered from 0.
    """
    set_tf32(allowed=False)
    paths = {}
    for name, group in request.groups.items():
        pipeline = _loaded(request.plain, group.dtypes, request.case.torch_device)
        outputs = {}
        for number, call in enumerate(group.calls):
            found, drew = called(pipeline, call).rounded_otherwise(group.rounding).drawing()
            check_deterministic(pipeline, drew=drew)
            outputs[f"{number}.{IMAGE}"] = images_of(found).cpu().numpy()
        folder = context.out_dir / name
        folder.mkdir()
        paths[name] = str(save_arrays(folder / "outputs.npz", outputs))
    return paths


def called(pipeline: Any, call: CallRequest) -> WholeCall:
    """Return a request to a pipeline of diffusers as a call says."""
    return WholeCall.of(pipeline, call.workload, prompt=call.prompts, seed=call.seed, drawn=call.drawn, rows=call.rows)


def check_deterministic(pipeline: Any, *, drew: bool) -> None:
    """Check that a request drew no noise on its way.

    Raises:
        NoReferenceError: It did, and every dtype draws its own.
    """
    if drew:
        raise NoReferenceError(
            f"the scheduler {type(pipeline.scheduler).__name__} draws noise at every step, which is another one in "
            f"every dtype, so there is nothing to compare. Agreement needs one that draws none, such as "
            f"EulerDiscreteScheduler."
        )


def _loaded(plain: PlainPipeline, dtypes: Mapping[str, str], device: str) -> Any:
    import diffusers
    import torch

    options = {"add_watermarker": True} if plain.watermark else {}
    load: Any = diffusers.DiffusionPipeline.from_pretrained
    # In whatever type it is loaded: none of these holds less than the file, and the next lines choose.
    pipeline = load(str(plain.folder), local_files_only=True, scheduler=_plain_scheduler.stand_in(), **options)
    pipeline.scheduler = _plain_scheduler.read(plain.folder)
    for name, dtype in dtypes.items():
        getattr(pipeline, name).to(getattr(torch, dtype))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)
