"""Run a pipeline of plain classes in several dtypes: reference and plain run of one that users made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.roundings import parse
from pytest_sdperf.engines._torch import set_tf32
from pytest_sdperf.tasks import TaskContext, _plain_scheduler
from pytest_sdperf.tasks._kept import StepLatents
from pytest_sdperf.tasks.request.whole_call import WholeCall, counted_calls, images_of


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Run the pipeline once per dtype; the user's own code takes no part.

    Args:
        arguments: As for the `run` of `tasks.external_pipeline`, with `folder` (what its `write` wrote), `watermark`,
            and `dtypes`: label -> dtype of each part of the pipeline. A label may carry the number of a rounding
            (`roundings.labels`).
        context: The task's context.

    Returns:
        Label -> path of the npz file with the outputs.

    Raises:
        NoReferenceError: Noise is drawn at every step, and every dtype draws its own.
    """
    import numpy as np

    set_tf32(allowed=False)
    paths = {}
    for label, dtypes in arguments["dtypes"].items():
        pipeline = _loaded(arguments, dtypes)
        request = WholeCall.of(
            pipeline, Workload(**arguments["workload"]), prompt=arguments["prompt"], seed=arguments["seed"]
        ).rounded_otherwise(parse(label)[1])
        with counted_calls(pipeline.unet) as calls:
            steps = StepLatents()
            found, drew = request.drawing(steps)
        check_deterministic(pipeline, drew=drew)
        outputs = {IMAGE: images_of(found).cpu().numpy(), "unet_calls": np.asarray(len(calls)), **steps.arrays()}
        folder = context.out_dir / label
        folder.mkdir()
        paths[label] = str(save_arrays(folder / "outputs.npz", outputs))
    return paths


def answer(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Make groups of calls, each with a pipeline of its own in its dtypes; the user's own code takes no part.

    Args:
        arguments: As for `run`, with `jobs` instead of `dtypes`: name -> `calls`, as of `tasks.replay`, and
            `dtypes`: dtype of each part, and `rounding`, the number of one of the initial latents.
        context: The task's context.

    Returns:
        Name -> path of the npz file with the outputs: `NUMBER.image`, calls numbered from 0.
    """
    set_tf32(allowed=False)
    paths = {}
    for name, job in arguments["jobs"].items():
        pipeline = _loaded(arguments, job["dtypes"])
        outputs = {}
        for number, call in enumerate(job["calls"]):
            found, drew = called(pipeline, call).rounded_otherwise(job["rounding"]).drawing()
            check_deterministic(pipeline, drew=drew)
            outputs[f"{number}.{IMAGE}"] = images_of(found).cpu().numpy()
        folder = context.out_dir / name
        folder.mkdir()
        paths[name] = str(save_arrays(folder / "outputs.npz", outputs))
    return paths


def called(pipeline: Any, call: Mapping[str, Any]) -> WholeCall:
    """Return a request to a pipeline of diffusers as a call of `tasks.replay` says."""
    workload = Workload(**call["workload"])
    told = {name: call[name] for name in ("seed", "drawn", "rows")}
    return WholeCall.of(pipeline, workload, prompt=call["prompts"], **told)


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


def _loaded(arguments: Mapping[str, Any], dtypes: Mapping[str, str]) -> Any:
    import diffusers
    import torch

    options = {"add_watermarker": True} if arguments["watermark"] else {}
    load: Any = diffusers.DiffusionPipeline.from_pretrained
    # In whatever type it is loaded: none of these holds less than the file, and the next lines choose.
    pipeline = load(arguments["folder"], local_files_only=True, scheduler=_plain_scheduler.stand_in(), **options)
    pipeline.scheduler = _plain_scheduler.read(Path(arguments["folder"]))
    for name, dtype in dtypes.items():
        getattr(pipeline, name).to(getattr(torch, dtype))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to("cpu" if arguments["device_kind"] == "cpu" else f"cuda:{arguments['device_index']}")
