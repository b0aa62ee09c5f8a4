"""Run or measure a whole text-to-image request: prompt, text encoders, guided denoising, image."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_sdperf.core import progress
from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values import Facts
from pytest_sdperf.tasks import TaskContext, _runtime_report
from pytest_sdperf.tasks._execution import Execution, MeasureCase, Measured, Ran, RunCase
from pytest_sdperf.tasks._kept import CallInputs, Ranges, StepLatents, on_host
from pytest_sdperf.tasks._loading import LoadedComponent, loaded_pipeline
from pytest_sdperf.tasks._stages import Stages
from pytest_sdperf.tasks.request.prompts import Call
from pytest_sdperf.tasks.request.text_to_image import OnStep, TextToImage, draw_noise
from pytest_sdperf.tasks.sampling.phases import Shared
from pytest_sdperf.tasks.sampling.timing import Timing, take_sample, timed

# Prompts become tokens with transformers, diffusers has the schedulers, and torch the tensors between components.
PACKAGES = ("torch", "diffusers", "transformers")


def check_packages(device_kind: str) -> None:
    """Check that this interpreter, which may be that of a profile, has what a pipeline needs beside its engine.

    Raises:
        EngineMissingError: It lacks a package; the text says which and what to type.
    """
    lacking = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not lacking:
        return
    text = f"a pipeline needs {', '.join(PACKAGES)} beside its engine, and {sys.executable} lacks {', '.join(lacking)}"
    if device_kind == "rocm" and "torch" in lacking:
        text += "; take torch for your ROCm version from https://pytorch.org/get-started/locally/"
        lacking.remove("torch")
    if lacking:
        text += f"; type: {sys.executable} -m pip install {' '.join(lacking)}"
    raise EngineMissingError(text)


@contextlib.contextmanager
def loaded_request(
    case: Execution, context: TaskContext, *watched: Callable[[str, Call], Call]
) -> Iterator[tuple[TextToImage, dict[str, LoadedComponent]]]:
    """Load every component; yield the pipeline and its components.

    Args:
        case: The case.
        context: The task's context.
        watched: Makes of the call of a component one that is looked at.
    """
    check_packages(case.device_kind)
    with context.catalog.alteration(case.altered).libraries(), loaded_pipeline(case, context) as parts:
        calls: dict[str, Call] = {name: part.runner.call for name, part in parts.items()}
        for watch in watched:
            calls = {name: watch(name, call) for name, call in calls.items()}
        yield _pipeline(parts, calls, case), parts


def _pipeline(parts: Mapping[str, LoadedComponent], calls: Mapping[str, Call], case: Execution) -> TextToImage:
    return TextToImage(
        parts["unet"].model,
        calls,
        tokenizers=case.picture.tokenizers,
        dtype=case.picture.dtype,
        device=case.torch_device,
    )


def _facts(parts: Mapping[str, LoadedComponent]) -> Facts:
    """Return what ran: that of the UNet, which takes nearly all of the time, and that of each component."""
    components = {name: part.facts() for name, part in parts.items()}
    versions = {name: version for part in parts.values() for name, version in part.engine.versions().items()}
    return {"versions": versions, **components["unet"], "components": {**components}}


def _generate(pipeline: TextToImage, case: Execution, on_step: OnStep | None = None) -> Any:
    picture, workload = case.picture, case.workload
    prompts = [picture.prompt] * workload.batch_size
    return pipeline.generate(prompts, seed=picture.seed, workload=workload, on_step=on_step, rounding=picture.rounding)


def run(request: RunCase, context: TaskContext) -> Ran:
    """Make the image once and write `outputs.npz`: what `CaseRunner.run` returns."""
    import numpy as np

    steps, ranges, given = StepLatents(), Ranges(), CallInputs(request.keep)
    with loaded_request(request.case, context, ranges.watched, given.watched) as (pipeline, _):
        result = _generate(pipeline, request.case, steps)
        outputs = {
            IMAGE: on_host(result.image),
            "latents": on_host(result.latents),
            **steps.arrays(),
            "unet_calls": np.asarray(result.unet_calls),
            **ranges.arrays(),
        }
    kept = {name: str(save_arrays(context.out_dir / f"{name}.npz", arrays)) for name, arrays in given.kept.items()}
    return Ran(str(save_arrays(context.out_dir / "outputs.npz", outputs)), kept=kept)


@dataclass(frozen=True)
class DrawPrompts:
    """Make one image per prompt.

    Attributes:
        case: The case; the prompt of its picture is not drawn.
        prompts: The prompts.
    """

    case: Execution
    prompts: tuple[str, ...]


def draw(request: DrawPrompts, context: TaskContext) -> Ran:
    """Make images, a batch at a time, and write `outputs.npz`: `images` [prompts, 3, H, W] in float32.

    Image i starts from row i of one array of noise, whatever the batch size is.
    """
    import numpy as np

    prompts, workload, seed = request.prompts, request.case.workload, request.case.picture.seed
    images = []
    with loaded_request(request.case, context) as (pipeline, _):
        one = pipeline.model.inputs("unet", workload)[0].shape[1:]
        noise = draw_noise((len(prompts), *one), seed)
        for start in range(0, len(prompts), workload.batch_size):
            progress.at(start, len(prompts))
            # The last batch is filled up: an engine may have been built for this size alone.
            rows = [min(start + row, len(prompts) - 1) for row in range(workload.batch_size)]
            asked = [prompts[row] for row in rows]
            result = pipeline.generate(asked, seed=seed, workload=workload, noise=noise[rows])
            images.append(result.image.detach().float().cpu().numpy())
    outputs = {"images": np.concatenate(images)[: len(prompts)]}
    return Ran(str(save_arrays(context.out_dir / "outputs.npz", outputs)))


def measure(request: MeasureCase, context: TaskContext, *, timing: Timing = timed) -> Measured:
    """Measure whole requests, from the prompt to the decoded image on the device."""
    import torch

    case = request.case
    on_cpu = case.device_kind == "cpu"
    calls: list[int] = []
    dtypes: set[str] = set()
    with loaded_request(case, context) as (pipeline, parts):

        def call() -> None:
            result = _generate(pipeline, case)
            calls.append(result.unet_calls)
            dtypes.add(result.vae_dtype)
            if not on_cpu:
                torch.cuda.synchronize()

        sample = take_sample(
            call,
            request.plan,
            listener=Shared(context.listener, [part.runner for part in parts.values()]),
            on_cpu=on_cpu,
            allocator_peak=parts["unet"].runner.allocator_peak_bytes,
            timing=timing,
        )
        # The loop calls every component whenever its turn comes, and keeps no answer.
        facts: Facts = {**_facts(parts), "vae_dtype": min(dtypes), "caching": "none"}
        if request.what_ran:
            facts |= _stages(parts, case)
            facts = _runtime_report.of_request(
                parts, call, facts=facts, unet_calls=calls[-1], case=case, folder=context.out_dir
            )
        load_s = parts["unet"].load_s
    return Measured(dataclasses.replace(sample, load_s=load_s, facts={**sample.facts, **facts}, unet_calls=calls[-1]))


def _stages(parts: Mapping[str, LoadedComponent], case: Execution) -> Facts:
    """Watch one request more, through calls of its own, and tell its answer: what was timed knew nothing of it."""
    stages = Stages(on_cpu=case.device_kind == "cpu")
    calls = {name: stages.watched(name, part.runner.call) for name, part in parts.items()}
    pipeline = _pipeline(parts, calls, case)
    made: list[Any] = []
    stages.watch(lambda: made.append(_generate(pipeline, case)))
    if not made:
        return stages.facts
    promised = all(case.device_kind in part.engine.repeats_on for part in parts.values())
    return {**stages.facts, **_runtime_report.answer({IMAGE: on_host(made[0].image)}, promised=promised)}
