"""torch without compilation: the reference, and the engine that everybody has."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import ComponentFacts, EngineOption, LoadRequest, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.errors import UnsupportedOptionError
from pytest_sdperf.core.interpreter import pip
from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.engines import _torch

if TYPE_CHECKING:
    import torch

# Our word -> member of torch.nn.attention.SDPBackend.
KERNELS = {
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}
_ABSENT: Mapping[str, tuple[str, ...]] = {"cpu": ("xformers", "cudnn", "efficient"), "rocm": ("cudnn",)}
_DEVICES = {"cpu": "a CPU", "cuda": "an NVIDIA GPU", "rocm": "an AMD GPU"}
# What torch says on a GPU, on a CPU, and xFormers, where a call fits no kernel that they may take.
_REFUSALS = ("No available kernel", "No viable backend", "No operator found")
# Where torch only announces a reason, and what it says of the kernels that nobody asked for.
_NO_REASONS = ("because:", "has been runtime disabled.")


class TorchEngine(_torch.ModuleEngine):
    """The torch module as diffusers builds it."""

    name = "torch"
    aliases: Mapping[str, Mapping[str, str]] = {"torch-xformers": {"attention": "xformers"}}
    options = {
        "attention": EngineOption(
            "sdpa", "Kernel of attention; sdpa lets torch choose.", choices=("sdpa", "xformers", *KERNELS)
        ),
        "channels_last": _torch.CHANNELS_LAST,
        "tf32": _torch.TF32,
    }
    resizes = True
    repeats_on = ("cpu",)

    def refuses_options(self, options: Mapping[str, str], device_kind: DeviceKind) -> str | None:
        """Refuse attention kernels that the device has none of, and xFormers where it is not installed."""
        asked = options["attention"]
        if asked in _ABSENT.get(device_kind, ()):
            return (
                f"attention={asked} has no kernel on {_DEVICES[device_kind]}; "
                f"type {self.name}:attention=flash or {self.name}:attention=math"
            )
        if asked == "xformers" and importlib.util.find_spec("xformers") is None:
            if device_kind == "rocm":
                return (
                    "attention=xformers needs package 'xformers', which is not installed, and PyPI's is not for AMD "
                    "GPUs; build it: https://github.com/facebookresearch/xformers#installing-xformers"
                )
            return (
                "attention=xformers needs package 'xformers', which is not installed; "
                f"type: {pip()} install 'xformers>=0.0.35' (it needs torch 2.10 or later)"
            )
        return None

    def versions(self) -> dict[str, str]:
        """Return the versions of torch and diffusers, and of xFormers, which diffusers imports where it is."""
        found = super().versions()
        if "xformers" in sys.modules:
            found["xformers"] = importlib.metadata.version("xformers")
        return found

    @contextlib.contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Load the module onto the device; the kernel of attention is set as long as it is loaded.

        Not around each call: `sdpa_kernel` takes 40 microseconds to enter and leave.
        """
        from torch.nn.attention import SDPBackend, sdpa_kernel

        asked, module = request.options["attention"], _torch.load_module(request)
        if asked == "sdpa":
            yield _torch.TorchRunner(module, request)
        elif asked == "xformers":
            yield _AttentionRunner(module, request) if _use_xformers(module) else _torch.TorchRunner(module, request)
        else:
            with sdpa_kernel(getattr(SDPBackend, KERNELS[asked])):
                yield _AttentionRunner(module, request)


def _use_xformers(module: torch.nn.Module) -> bool:
    """Let xFormers compute the attention of every part that diffusers made; say whether there is any.

    Text encoders are made by transformers and keep torch's attention.
    """
    from diffusers.models.attention_processor import Attention, XFormersAttnProcessor

    parts = [part for part in module.modules() if isinstance(part, Attention)]
    for part in parts:
        part.set_processor(XFormersAttnProcessor())  # type: ignore[arg-type]  # diffusers says str | one class
    return bool(parts)


class _AttentionRunner(_torch.TorchRunner):
    """A module with a kernel of attention that somebody asked for: no other may take its place."""

    def recipe(self) -> ModuleRecipe:
        """Return the kernel that was asked for, too."""
        asked = self._request.options["attention"]
        return dataclasses.replace(super().recipe(), attention=KERNELS.get(asked, asked))

    def compute(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Start one call.

        Raises:
            UnsupportedOptionError: The kernel cannot serve a shape or type of this component.
        """
        try:
            return super().compute(inputs)
        except RuntimeError as error:
            if not any(words in str(error) for words in _REFUSALS):
                raise
            raise UnsupportedOptionError(self._refusal(error, self._warnings(inputs))) from error

    def _warnings(self, inputs: Sequence[torch.Tensor]) -> list[str]:
        """Call again for what torch says about each kernel that it did not take: on a GPU it warns, then raises."""
        with warnings.catch_warnings(record=True) as caught, contextlib.suppress(RuntimeError):
            warnings.simplefilter("always")
            super().compute(inputs)
        texts = [str(warning.message).partition(" (Triggered")[0].strip() for warning in caught]
        return [text for text in dict.fromkeys(texts) if not text.endswith(_NO_REASONS)]

    def _refusal(self, error: RuntimeError, reasons: Sequence[str]) -> str:
        request = self._request
        why = " ".join(reasons) or _why(str(error).splitlines())
        text = (
            f"attention={request.options['attention']} cannot serve the {request.component} of {request.model.name} in "
            f"{request.build.dtype} on {_DEVICES[request.device_kind]}: {why.rstrip('.')}. "
            f"Type torch:attention=math, which serves everything, or torch, which chooses for itself"
        )
        alone = "" if request.component == "unet" else "; or run the UNet alone: --sdperf-component=unet"
        return f"{text}{alone}."

    def facts(self) -> ComponentFacts:
        """Return the kernel that was asked for, too."""
        return {**super().facts(), "attention": self._request.options["attention"]}


def _why(lines: Sequence[str]) -> str:
    """Return what an error says: its first line, and of xFormers' the reasons that each of its operators gives."""
    start = next((number for number, line in enumerate(lines) if line.endswith("because:")), len(lines))
    found = dict.fromkeys(line.strip() for line in lines[start:] if not line.endswith("because:"))
    head = lines[0].removesuffix(" with inputs:")
    return f"{head}: {', '.join(found)}" if found else head
