"""A pipeline that the user's own code makes: describe it, run it, measure it, or write it down in plain classes."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import monotonic_s
from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.schedulers import scheduler_name
from pytest_sdperf.core.settings import PipelineFactory
from pytest_sdperf.core.values import Workload, to_json
from pytest_sdperf.tasks import TaskContext, _plain_scheduler, _runtime_report
from pytest_sdperf.tasks._kept import StepLatents
from pytest_sdperf.tasks._made_pipeline import SUPPORTED, made_pipeline, plain_class, unwrapped
from pytest_sdperf.tasks._plain_twin import check_described, identity, plain_pipeline_class, plain_twin
from pytest_sdperf.tasks._stages import Stages
from pytest_sdperf.tasks.request.whole_call import WholeCall, counted_calls, images_of, observed_parts
from pytest_sdperf.tasks.sampling.timing import TimingPlan, take_sample


def preload(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:  # noqa: ARG001 - a task's form
    """Import the classes of diffusers that a pipeline may need; the user's own module waits for its turn."""
    import diffusers

    return {"classes": [getattr(diffusers, name).__name__ for name in SUPPORTED]}


def describe(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:  # noqa: ARG001 - the same
    """Make the pipeline and say what it is.

    Args:
        arguments: As for `made_pipeline`, with `prompt`.
        context: The task's context.

    Returns:
        Fields of `external_pipeline.Description`.
    """
    spelled = PipelineFactory(**arguments["factory"]).spelled
    with made_pipeline(arguments) as pipeline:
        twin = plain_twin(pipeline, spelled)
        size = pipeline.unet.config.sample_size
        height, width = (size, size) if isinstance(size, int) else size
        return {
            "identity": identity(twin, [arguments["prompt"], ""]),
            "dtype": {name: _weights_dtype(getattr(pipeline, name)) for name in SUPPORTED[type(twin).__name__]},
            "height": height * pipeline.vae_scale_factor,
            "width": width * pipeline.vae_scale_factor,
            "scheduler": scheduler_name(twin.scheduler),
            "watermark": getattr(pipeline, "watermark", None) is not None,
            "upcasts_decoder": bool(pipeline.vae.config.force_upcast),
            "switched_on": [
                f"{what} of the {name}"
                for name in SUPPORTED[type(twin).__name__]
                for what in switched_on(unwrapped(getattr(pipeline, name)))
            ],
        }


def write(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Write the pipeline's weights and settings as a folder that diffusers reads, in plain classes.

    Args:
        arguments: As for `made_pipeline`, with `target`: the folder.
        context: The task's context.
    """
    context.say(f"writing the weights of {arguments['factory']['module']}:{arguments['factory']['function']}")
    with made_pipeline(arguments) as pipeline:
        check_described(pipeline, arguments)
        twin = plain_twin(pipeline, PipelineFactory(**arguments["factory"]).spelled)
        twin.save_pretrained(arguments["target"])
        _plain_scheduler.write(twin.scheduler, Path(arguments["target"]))
    return {}


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Make the image once and write `outputs.npz`: `image`, `unet_calls` and, where it tells them, `step_latents`.

    Args:
        arguments: As for `made_pipeline`, with `workload`, `prompt` and `seed`.
        context: The task's context.

    Raises:
        NoReferenceError: The pipeline's safety checker put a black image in place of one that it made.
    """
    import numpy as np

    with made_pipeline(arguments) as pipeline, counted_calls(pipeline.unet) as calls:
        check_described(pipeline, arguments)
        steps = StepLatents()
        answer = _call(pipeline, arguments)(steps)
        check_shown(answer)
        outputs = {IMAGE: images_of(answer).cpu().numpy(), "unet_calls": np.asarray(len(calls)), **steps.arrays()}
        facts = _facts(pipeline, arguments)
    return {"outputs": str(save_arrays(context.out_dir / "outputs.npz", outputs)), "facts": facts}


def check_shown(answer: Any) -> None:
    """Check that an answer of a pipeline holds the images that were made.

    Raises:
        NoReferenceError: The pipeline's safety checker put a black image in place of one.
    """
    if any(getattr(answer, "nsfw_content_detected", None) or []):
        raise NoReferenceError(
            "the pipeline's safety checker put a black image in place of the one that was made, so there is "
            "nothing to compare. Load the pipeline with safety_checker=None."
        )


def measure(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Measure whole requests, from the prompt to the decoded image on the device.

    Args:
        arguments: As for `run`, with `plan`: fields of `timing.TimingPlan`.
        context: The task's context.

    Returns:
        `sample`: a `values.Sample` as JSON.
    """
    import torch

    on_cpu, start_s = arguments["device_kind"] == "cpu", monotonic_s()
    unet_calls: list[int] = []
    with made_pipeline(arguments) as pipeline:
        request, load_s = _call(pipeline, arguments), monotonic_s() - start_s
        check_described(pipeline, arguments)

        def call() -> None:
            if unet_calls:
                request()
            else:  # only the first run counts, so that nothing is added to what is timed
                with counted_calls(pipeline.unet) as calls:
                    request()
                unet_calls.append(len(calls))
            if not on_cpu:
                torch.cuda.synchronize()

        plan = TimingPlan(**arguments["plan"])
        sample = take_sample(call, plan, listener=context.listener, on_cpu=on_cpu)
        facts = _facts(pipeline, arguments)
        if not plan.slowdowns:  # a self-test is about the times alone
            stages, made = Stages(on_cpu=on_cpu), list[Any]()
            with observed_parts(pipeline, stages.timed):
                stages.watch(lambda: made.append(request()))
            facts |= stages.facts
            if made:
                facts |= _runtime_report.answer({IMAGE: images_of(made[0]).cpu().numpy()}, promised=False)
            facts |= _runtime_report.of_external_request(
                call, unet_calls=unet_calls[0], arguments=arguments, folder=context.out_dir
            )
    return {
        "sample": to_json(
            dataclasses.replace(sample, load_s=load_s, facts={**sample.facts, **facts}, unet_calls=unet_calls[0])
        )
    }


def _call(pipeline: Any, arguments: Mapping[str, Any]) -> WholeCall:
    workload = Workload(**arguments["workload"])
    return WholeCall.of(pipeline, workload, prompt=arguments["prompt"], seed=arguments["seed"])


def _weights_dtype(part: Any) -> str:
    return str(unwrapped(part).dtype).removeprefix("torch.")


def _facts(pipeline: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ran: versions, and the settings that the user's code chose, with a hash of its module."""
    from importlib.metadata import version

    import torch

    settings = {"pipeline": type(pipeline).__name__, "scheduler": type(pipeline.scheduler).__name__}
    settings |= {name: _manner(getattr(pipeline, name)) for name in SUPPORTED[plain_pipeline_class(pipeline).__name__]}
    checker = getattr(pipeline, "safety_checker", None)
    settings["safety_checker"] = type(checker).__name__ if checker is not None else "none"
    module, function = arguments["factory"]["module"], arguments["factory"]["function"]
    settings[f"{module}:{function}"] = _source(module)
    facts: dict[str, Any] = {
        "versions": {
            "torch": str(torch.__version__),
            **{name: version(name) for name in ("diffusers", "transformers")},
        },
        "settings": settings,
    }
    return {**facts, "threads": str(torch.get_num_threads())} if arguments["device_kind"] == "cpu" else facts


def _manner(part: Any) -> str:
    """Say how a part runs: `float16 compiled channels-last FusedAttnProcessor2_0`."""
    import torch

    module = unwrapped(part)
    words = [_weights_dtype(part)]
    if module is not part or getattr(module, "_compiled_call_impl", None) is not None:
        words.append("compiled")
    kernels = [tensor for tensor in module.parameters() if tensor.dim() == 4 and tensor.shape[-1] > 1]
    if kernels and all(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in kernels):
        words.append("channels-last")
    words += sorted({type(processor).__name__ for processor in getattr(module, "attn_processors", {}).values()})
    words += switched_on(module)
    own = plain_class(module)
    return " ".join(words if own is type(module) else [type(module).__name__, *words])


def switched_on(module: Any) -> list[str]:
    """Return what changes what a module computes, and is neither in its weights nor in its settings."""
    free_u = any(getattr(block, "b1", None) is not None for block in getattr(module, "up_blocks", ()))
    found = {"tiling": getattr(module, "use_tiling", False), "slicing": getattr(module, "use_slicing", False)}
    return [name for name, on in {**found, "FreeU": free_u}.items() if on]


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    path = Path(spec.origin) if spec is not None and spec.origin else None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path is not None and path.is_file() else "unknown"
