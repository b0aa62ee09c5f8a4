"""Run a pipeline of plain classes in several floating types: reference and yardstick of one that users made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sdperf.arrays import save_arrays
from pytest_sdperf.components import IMAGE
from pytest_sdperf.engines._torch import set_tf32
from pytest_sdperf.errors import NoReferenceError
from pytest_sdperf.pipeline.whole_call import WholeCall, counted_calls, images_of
from pytest_sdperf.roundings import parse
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._kept import StepLatents
from pytest_sdperf.values import Workload


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Run the pipeline once per floating type; the user's own code takes no part.

    Args:
        arguments: As for the `run` of `tasks.given_pipeline`, with `folder` (what its `write` wrote), `watermark`, and
            `floatings`: label -> floating type of each part of the pipeline. A label may carry the number of a
            rounding (`roundings.labels`).
        context: The task's context.

    Returns:
        Label -> path of the npz file with the outputs.

    Raises:
        NoReferenceError: Noise is drawn at every step, and every floating type draws its own.
    """
    import numpy as np

    set_tf32(allowed=False)
    paths = {}
    for label, floatings in arguments["floatings"].items():
        pipeline = _loaded(arguments, floatings)
        request = WholeCall.of(
            pipeline, Workload(**arguments["workload"]), prompt=arguments["prompt"], seed=arguments["seed"]
        ).rounded_otherwise(parse(label)[1])
        with counted_calls(pipeline.unet) as calls:
            steps = StepLatents()
            answer, drew = request.drawing(steps)
        if drew:
            raise NoReferenceError(
                f"the scheduler {type(pipeline.scheduler).__name__} draws noise at every step, which is another one in "
                f"every floating type, so there is nothing to compare. Agreement needs one that draws none, such as "
                f"EulerDiscreteScheduler."
            )
        outputs = {IMAGE: images_of(answer).cpu().numpy(), "unet_calls": np.asarray(len(calls)), **steps.arrays()}
        folder = context.out_dir / label
        folder.mkdir()
        paths[label] = str(save_arrays(folder / "outputs.npz", outputs))
    return paths


def _loaded(arguments: Mapping[str, Any], floatings: Mapping[str, str]) -> Any:
    import diffusers
    import torch

    options = {"add_watermarker": True} if arguments["watermark"] else {}
    load: Any = diffusers.DiffusionPipeline.from_pretrained
    # In whatever type it is loaded: none of these holds less than the file, and the next lines choose.
    pipeline = load(arguments["folder"], local_files_only=True, **options)
    for name, floating in floatings.items():
        getattr(pipeline, name).to(getattr(torch, floating))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to("cpu" if arguments["device_kind"] == "cpu" else f"cuda:{arguments['device_index']}")
