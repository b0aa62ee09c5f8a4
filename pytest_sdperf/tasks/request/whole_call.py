"""One request to a diffusers pipeline, called as its users call it: the same request for every pipeline."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks.request.text_to_image import OnStep, draw_noise, rounded_otherwise

if TYPE_CHECKING:
    import torch

Observe = Callable[[Callable[[], Any]], Any]

GUIDANCE_SCALE = 7.5
_CALLBACK = "callback_on_step_end"  # diffusers' own name


@dataclasses.dataclass(frozen=True)
class WholeCall:
    """A request that can be repeated; its initial latents are on the device already.

    Attributes:
        pipeline: A text-to-image pipeline of diffusers.
        workload: Batch size, resolution and steps; the scheduler is the pipeline's own.
        prompts: Of each image.
        seed: Of the initial latents, and of the noise that some schedulers add at every step.
    """

    pipeline: Any
    workload: Workload
    prompts: Sequence[str]
    seed: int
    latents: torch.Tensor

    @classmethod
    def of(
        cls,
        pipeline: Any,
        workload: Workload,
        *,
        prompt: str | Sequence[str],
        seed: int,
        drawn: int = 0,
        rows: Sequence[int] = (),
    ) -> WholeCall:
        """Draw the initial latents with numpy, equal on every device, in the dtype of the UNet.

        Args:
            pipeline: A text-to-image pipeline of diffusers.
            workload: Batch size, resolution and steps.
            prompt: Of every image, or of each.
            seed: Of the latents.
            drawn: Images whose latents are drawn; as many as the batch has if 0.
            rows: Which of them the batch begins from; all of them if empty.
        """
        scale = pipeline.vae_scale_factor
        shape = (
            drawn or workload.batch_size,
            pipeline.unet.config.in_channels,
            workload.height // scale,
            workload.width // scale,
        )
        noise = draw_noise(shape, seed)
        noise = noise[list(rows)] if rows else noise
        latents = noise.to(pipeline._execution_device, pipeline.unet.dtype)  # noqa: SLF001 - offloaded ones
        prompts = [prompt] * workload.batch_size if isinstance(prompt, str) else list(prompt)
        return cls(pipeline, workload, prompts, seed, latents)

    def rounded_otherwise(self, number: int) -> WholeCall:
        """Return the same request from initial latents in another rounding; 0 is the one that they have."""
        if not number:
            return self
        return dataclasses.replace(self, latents=rounded_otherwise(self.latents, number, self.latents.dtype))

    def __call__(self, on_step: OnStep | None = None) -> Any:
        """Make the images and return what the pipeline returned: `images` as torch tensors in [0, 1].

        Args:
            on_step: Called after every step with its index, timestep and the new latents, where the pipeline can do it.
        """
        return self.drawing(on_step)[0]

    def drawing(self, on_step: OnStep | None = None) -> tuple[Any, bool]:
        """Make the images; say too whether noise was drawn on the way, beyond the initial latents."""
        import torch

        generator = torch.Generator("cpu").manual_seed(self.seed)
        before = generator.get_state()
        answer = self.pipeline(
            prompt=list(self.prompts),
            height=self.workload.height,
            width=self.workload.width,
            num_inference_steps=self.workload.steps,
            guidance_scale=GUIDANCE_SCALE,
            latents=self.latents,
            generator=generator,
            output_type="pt",
            **self._told(on_step),
        )
        return answer, not torch.equal(before, generator.get_state())

    def _told(self, on_step: OnStep | None) -> dict[str, Any]:
        """Return the arguments that let a pipeline tell of its steps; none where its class does not take them."""
        parameters = inspect.signature(self.pipeline.__call__).parameters
        takes = _CALLBACK in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        if on_step is None or not takes:
            return {}

        def told(_: Any, index: int, timestep: Any, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
            on_step(index, float(timestep), tensors["latents"])
            return {}

        return {_CALLBACK: told}


def images_of(answer: Any) -> torch.Tensor:
    """Return the images of an answer as float32 [N, 3, H, W] in [-1, 1]."""
    images: torch.Tensor = answer.images
    return images.detach().float() * 2 - 1


@contextlib.contextmanager
def counted_calls(module: Any) -> Iterator[list[None]]:
    """Count the calls of a module, compiled or not, in a list that grows by one with each."""
    calls = list[None]()

    def count(call: Callable[[], Any]) -> Any:
        calls.append(None)
        return call()

    with observed_calls(module, count):
        yield calls


@contextlib.contextmanager
def observed_calls(module: Any, observe: Observe) -> Iterator[None]:
    """Let `observe` make every call of a module, compiled or not.

    Hooks would do it too, but a compiled module is compiled anew where it gets some.
    """
    kind = type(module)
    own, original = vars(kind).get("__call__"), kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self is module:
            return observe(lambda: original(self, *args, **kwargs))
        return original(self, *args, **kwargs)

    kind.__call__ = call
    try:
        yield
    finally:
        if own is None:
            del kind.__call__
        else:
            kind.__call__ = own


@contextlib.contextmanager
def observed_parts(pipeline: Any, observe: Callable[[str, Callable[[], Any]], Any]) -> Iterator[None]:
    """Let `observe` make every call of a part that has weights, by the name of its component.

    An autoencoder is asked to `decode`, which may be a compiled function of its own.
    """
    with contextlib.ExitStack() as stack:
        for name in ("text_encoder", "text_encoder_2", "unet"):
            part = getattr(pipeline, name, None)
            if part is not None:
                stack.enter_context(observed_calls(part, functools.partial(observe, name)))
        own, decode = vars(pipeline.vae), pipeline.vae.decode
        before = {"decode": own["decode"]} if "decode" in own else {}
        stack.callback(own.update, before)
        stack.callback(own.pop, "decode")  # the last one comes first
        own["decode"] = lambda *args, **kwargs: observe("vae_decoder", lambda: decode(*args, **kwargs))
        yield
