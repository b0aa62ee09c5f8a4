"""A pipeline that the user's own code makes: describe it, run it, measure it, or write it down in plain classes."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import monotonic_s
from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.schedulers import scheduler_name
from pytest_sdperf.core.values import Case, Facts
from pytest_sdperf.tasks import TaskContext, _plain_scheduler, _runtime_report
from pytest_sdperf.tasks._execution import Execution, MeasureCase, Measured, Ran, RunCase
from pytest_sdperf.tasks._kept import StepLatents
from pytest_sdperf.tasks._made_pipeline import SUPPORTED, made_pipeline, plain_class, unwrapped
from pytest_sdperf.tasks._plain_twin import check_described, identity, plain_pipeline_class, plain_twin
from pytest_sdperf.tasks._stages import Stages
from pytest_sdperf.tasks.request.whole_call import WholeCall, counted_calls, images_of, observed_parts
from pytest_sdperf.tasks.sampling.timing import Timing, take_sample, timed


def preload(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:  # noqa: ARG001 - a task's form
    """Import the classes of diffusers that a pipeline may need; the user's own module waits for its turn."""
    import diffusers

    return {"classes": [getattr(diffusers, name).__name__ for name in SUPPORTED]}


@dataclass(frozen=True)
class Description:
    """What a pipeline turned out to be.

    Attributes:
        identity: Hash of its weights and settings, without what its code does with them.
        dtype: Part -> dtype.
        height, width: Its own resolution.
        scheduler: Name of its scheduler, or the class of one that has no name here.
        watermark: Whether it marks its images.
        upcasts_decoder: Whether the configuration of its VAE says `force_upcast`.
        switched_on: What its code switched on that changes what it computes, and plain classes leave off.
    """

    identity: str
    dtype: Mapping[str, str]
    height: int
    width: int
    scheduler: str
    watermark: bool
    upcasts_decoder: bool = False
    switched_on: Sequence[str] = ()

    def completed(self, case: Case) -> Case:
        """Return a case with what only the pipeline itself could say."""
        return dataclasses.replace(
            case,
            weights=f"pipeline-{self.identity}",
            height=case.height or self.height,
            width=case.width or self.width,
            scheduler=self.scheduler,
        )


def describe(case: Execution, context: TaskContext) -> Description:  # noqa: ARG001 - the same
    """Make the pipeline and say what it is; the case has no more than it and the prompt."""
    with made_pipeline(case) as pipeline:
        twin = plain_twin(pipeline, case.factory.spelled)
        size = pipeline.unet.config.sample_size
        height, width = (size, size) if isinstance(size, int) else size
        return Description(
            identity=identity(twin, [case.picture.prompt, ""]),
            dtype={name: _weights_dtype(getattr(pipeline, name)) for name in SUPPORTED[type(twin).__name__]},
            height=height * pipeline.vae_scale_factor,
            width=width * pipeline.vae_scale_factor,
            scheduler=scheduler_name(twin.scheduler),
            watermark=getattr(pipeline, "watermark", None) is not None,
            upcasts_decoder=bool(pipeline.vae.config.force_upcast),
            switched_on=[
                f"{what} of the {name}"
                for name in SUPPORTED[type(twin).__name__]
                for what in switched_on(unwrapped(getattr(pipeline, name)))
            ],
        )


@dataclass(frozen=True)
class WriteFolder:
    """Write a pipeline's weights and settings as a folder that diffusers reads, in plain classes.

    Attributes:
        case: Has the pipeline, which has been described.
        target: The folder.
    """

    case: Execution
    target: Path


def write(request: WriteFolder, context: TaskContext) -> dict[str, Any]:
    """Write the folder."""
    factory = request.case.factory
    context.say(f"writing the weights of {factory.module}:{factory.function}")
    with made_pipeline(request.case) as pipeline:
        check_described(pipeline, request.case)
        twin = plain_twin(pipeline, factory.spelled)
        twin.save_pretrained(request.target)
        _plain_scheduler.write(twin.scheduler, request.target)
    return {}


def run(request: RunCase, context: TaskContext) -> Ran:
    """Make the image once and write `outputs.npz`: `image`, `unet_calls` and, where it tells them, `step_latents`.

    Raises:
        NoReferenceError: The pipeline's safety checker put a black image in place of one that it made.
    """
    import numpy as np

    case = request.case
    with made_pipeline(case) as pipeline, counted_calls(pipeline.unet) as calls:
        check_described(pipeline, case)
        steps = StepLatents()
        answer = _call(pipeline, case)(steps)
        check_shown(answer)
        outputs = {IMAGE: images_of(answer).cpu().numpy(), "unet_calls": np.asarray(len(calls)), **steps.arrays()}
    return Ran(str(save_arrays(context.out_dir / "outputs.npz", outputs)))


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


def measure(request: MeasureCase, context: TaskContext, *, timing: Timing = timed) -> Measured:
    """Measure whole requests, from the prompt to the decoded image on the device."""
    import torch

    case = request.case
    on_cpu, start_s = case.device_kind == "cpu", monotonic_s()
    unet_calls: list[int] = []
    with made_pipeline(case) as pipeline:
        ask, load_s = _call(pipeline, case), monotonic_s() - start_s
        check_described(pipeline, case)

        def call() -> None:
            if unet_calls:
                ask()
            else:  # only the first run counts, so that nothing is added to what is timed
                with counted_calls(pipeline.unet) as calls:
                    ask()
                unet_calls.append(len(calls))
            if not on_cpu:
                torch.cuda.synchronize()

        sample = take_sample(call, request.plan, listener=context.listener, on_cpu=on_cpu, timing=timing)
        facts = _facts(pipeline, case)
        if request.what_ran:
            stages, made = Stages(on_cpu=on_cpu), list[Any]()
            with observed_parts(pipeline, stages.timed):
                stages.watch(lambda: made.append(ask()))
            facts |= stages.facts
            if made:
                facts |= _runtime_report.answer({IMAGE: images_of(made[0]).cpu().numpy()}, promised=False)
            facts |= _runtime_report.of_external_request(
                call, unet_calls=unet_calls[0], case=case, folder=context.out_dir
            )
    return Measured(
        dataclasses.replace(sample, load_s=load_s, facts={**sample.facts, **facts}, unet_calls=unet_calls[0])
    )


def _call(pipeline: Any, case: Execution) -> WholeCall:
    return WholeCall.of(pipeline, case.workload, prompt=case.picture.prompt, seed=case.picture.seed)


def _weights_dtype(part: Any) -> str:
    return str(unwrapped(part).dtype).removeprefix("torch.")


def _facts(pipeline: Any, case: Execution) -> Facts:
    """Return what ran: versions, and the settings that the user's code chose, with a hash of its module."""
    from importlib.metadata import version

    import torch

    settings = {"pipeline": type(pipeline).__name__, "scheduler": type(pipeline.scheduler).__name__}
    settings |= {name: _manner(getattr(pipeline, name)) for name in SUPPORTED[plain_pipeline_class(pipeline).__name__]}
    checker = getattr(pipeline, "safety_checker", None)
    settings["safety_checker"] = type(checker).__name__ if checker is not None else "none"
    module = case.factory.module
    settings[f"{module}:{case.factory.function}"] = _source(module)
    facts: Facts = {
        "versions": {
            "torch": str(torch.__version__),
            **{name: version(name) for name in ("diffusers", "transformers")},
        },
        "settings": settings,
    }
    return {**facts, "threads": str(torch.get_num_threads())} if case.device_kind == "cpu" else facts


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
