"""OneDiff with nexfort: a compiler of whole diffusers pipelines, whose last release is tied to torch 2.5."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import ComponentFacts, EngineOption, LoadRequest, Requirement, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.engines import _torch

if TYPE_CHECKING:
    import torch

# Under which attribute `compile_pipe` looks for a component; it knows no others.
PLACES = {
    "text_encoder": "text_encoder",
    "text_encoder_2": "text_encoder_2",
    "unet": "unet",
    "vae_decoder": "vae.decoder",
    "vae_encoder": "vae.encoder",
}
# With these its authors measured Stable Diffusion 2.1.
PUBLISHED_MODE = "cudagraphs:benchmark:max-autotune:low-precision:cache-all"
PUBLISHED_OPTIONS = {
    "triton.fuse_attention_allow_fp16_reduction": False,
    "inductor.optimize_linear_epilogue": False,
    "overrides.conv_benchmark": True,
}
TF32_OPTION = "overrides.matmul_allow_tf32"  # they allowed it, which changes nothing in half precision
_TORCH = ((2, 3), (2, 5))  # oldest and newest release that nexfort is built for
_ENVIRONMENT = (
    "it needs an environment of its own, which a profile names; type: python3.11 -m venv onediff && onediff/bin/pip "
    "install numpy torch==2.5.1 onediff onediffx nexfort==0.1.dev330 'transformers<5' 'diffusers<0.33'"
)


class OneDiffEngine(_torch.ModuleEngine):
    """`compile_pipe` of OneDiff on the components of a pipeline, all in one call.

    A single component is a pipeline of one part. With `low-precision` in its mode, which is the default as published,
    products are accumulated in float16: the fact `accumulation` says so, because other engines do not.
    """

    name = "onediff"
    device_kinds = ("cuda",)
    options = {
        "mode": EngineOption(PUBLISHED_MODE, "Modes of nexfort, joined by colons.", pattern=r"[a-z-]+(:[a-z-]+)*"),
        "memory_format": EngineOption(
            "channels_last", "Memory format of UNet and VAE.", choices=("channels_last", "preserve_format")
        ),
        "tf32": _torch.TF32,
    }
    requirements = tuple(
        Requirement(module) for module in ("torch", "diffusers", "transformers", "onediff", "onediffx", "nexfort")
    )
    compiles = True

    def missing(self, device_kind: DeviceKind = "cuda") -> str | None:
        """Ask for the packages, and for a torch that nexfort was built for."""
        lacking = [need.module for need in self.requirements if importlib.util.find_spec(need.module) is None]
        oldest, newest = _TORCH
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version("torch")
            if not oldest <= _release(version) <= newest:
                return f"nexfort is built for torch 2.3 to 2.5.1, and torch {version} is installed; {_ENVIRONMENT}"
        return f"{', '.join(lacking)}: not installed; {_ENVIRONMENT}" if lacking else None

    def versions(self) -> dict[str, str]:
        """Return the versions of torch, diffusers, OneDiff and nexfort."""
        return {**super().versions(), **{name: importlib.metadata.version(name) for name in ("onediff", "nexfort")}}

    @contextlib.contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Load one component as a pipeline of one part; the first call compiles it."""
        with self.load_pipeline({request.component: request}) as runners:
            yield runners[request.component]

    @contextlib.contextmanager
    def load_pipeline(self, requests: Mapping[str, LoadRequest]) -> Iterator[Mapping[str, Runner]]:
        """Load every component and let OneDiff compile them together; the first call of each does the work."""
        first = next(iter(requests.values()))
        given = first.options
        inner = {**PUBLISHED_OPTIONS, TF32_OPTION: given["tf32"] == "on"}
        options = {"mode": given["mode"], "memory_format": given["memory_format"], "options": inner}
        pipe = pipeline_of({name: _load_module(request) for name, request in requests.items()})
        with _torch.inductor_cache(first):
            from onediffx import compile_pipe

            pipe = compile_pipe(pipe, backend="nexfort", options=options)
            yield {name: OneDiffRunner(part_of(pipe, name), request) for name, request in requests.items()}


class OneDiffRunner(_torch.TorchRunner):
    """Calls a compiled component; its outputs are copies, because a replayed CUDA graph writes over them."""

    def __init__(self, module: torch.nn.Module, request: LoadRequest) -> None:
        super().__init__(module, request, clone_outputs=True)
        self._accumulation = "float16" if "low-precision" in request.options["mode"].split(":") else "float32"

    def facts(self) -> ComponentFacts:
        """Return in which type products of float16 are accumulated, as far as nexfort is allowed to choose."""
        return {**super().facts(), "accumulation": self._accumulation}


def pipeline_of(modules: Mapping[str, torch.nn.Module]) -> SimpleNamespace:
    """Return an object with the components where a diffusers pipeline has them.

    Args:
        modules: By component.
    """
    import torch

    pipe = SimpleNamespace()
    for name, module in modules.items():
        holder, _, attribute = PLACES[name].rpartition(".")
        if holder and not hasattr(pipe, holder):
            setattr(pipe, holder, torch.nn.Module())  # a module: the memory format is set on what is one
        setattr(getattr(pipe, holder) if holder else pipe, attribute, module)
    return pipe


def _load_module(request: LoadRequest) -> torch.nn.Module:
    """Load a component as it is: its memory format is among the options that nexfort gets."""
    _torch.set_tf32(allowed=request.options["tf32"] == "on")  # that of nexfort is for products alone
    return request.model.module(
        request.component,
        weights=request.build.path,
        dtype=request.build.dtype,
        device=_torch.torch_device(request),
    ).eval()


def part_of(pipe: SimpleNamespace, component: str) -> torch.nn.Module:
    """Return what stands in a pipeline where a component was put."""
    found = pipe
    for attribute in PLACES[component].split("."):
        found = getattr(found, attribute)
    module: torch.nn.Module = found  # type: ignore[assignment]  # an attribute of a plain object
    return module


def _release(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
