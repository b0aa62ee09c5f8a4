"""What the engines for AMD GPUs share: what must come from the ROCm installation and not from PyPI."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.contracts import Engine, LoadRequest, Model
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.interpreter import pip
from pytest_sdperf.engines import _ort, _ort_install, _ort_memory

_INSTALLATIONS = Path("/opt")


class RocmEngine(Engine):
    """What every engine has in common that runs ONNX Runtime on an AMD GPU."""

    consumes = "onnx"
    device_kinds: tuple[DeviceKind, ...] = ("rocm",)
    extra = "rocm"

    def preload(self, model: Model, component: str) -> None:
        """Import torch first: its libraries of ROCm are those that onnxruntime shall find."""
        import torch  # noqa: F401, I001 - the order matters
        import onnxruntime  # noqa: F401

    def versions(self) -> dict[str, str]:
        """Return the versions of onnxruntime, of torch with the ROCm that it was built for, and of the ROCm here."""
        import torch

        return {**_ort.versions(), "torch": str(torch.__version__), **_known("rocm", _releases())}


def session(request: LoadRequest, provider: str, options: Mapping[str, str]) -> Any:
    """Create a session on an AMD GPU, with the CPU provider behind it for what has no kernel there."""
    import torch  # noqa: F401, I001 - the order matters
    import onnxruntime

    return _ort.create_session(
        request,
        options=_ort.session_options(onnxruntime, request.options),
        providers=[(provider, dict(options)), "CPUExecutionProvider"],
    )


def missing_torch() -> str | None:
    """Say that torch is not here, on whose memory components work; None if it is."""
    if importlib.util.find_spec("torch") is not None:
        return None
    return (
        "package 'torch' is not installed, and PyPI's is not for AMD GPUs; "
        "install the one for your ROCm version: https://pytorch.org/get-started/locally/"
    )


def missing_provider(provider: str, package: str) -> str | None:
    """Say why an execution provider for AMD GPUs cannot run here; None if nothing is known against it.

    Args:
        provider: Its name.
        package: What to ask pip for.
    """
    return _ort_install.missing_build(provider, f"{pip()} install '{package}'") or missing_torch()


def has_library(name: str) -> bool:
    """Whether a library of ROCm is here: known to the loader, or in a folder of an installation."""
    if ctypes.util.find_library(name) is not None:
        return True
    return any(_INSTALLATIONS.glob(f"rocm*/lib/lib{name}.so*"))


def library_versions(name: str) -> dict[str, str]:
    """Return name -> the files that a library of ROCm may be loaded from, whose names end in its version.

    Empty if it is not here. Where several installations lie side by side, all of them count.
    """
    files = (path.resolve().name for path in _INSTALLATIONS.glob(f"rocm*/lib/lib{name}.so*"))
    loader = ctypes.util.find_library(name)
    return _known(name, files) or _known(name, [loader] if loader else [])


def _releases() -> Iterator[str]:
    for path in _INSTALLATIONS.glob("rocm*/.info/version"):
        with contextlib.suppress(OSError):
            yield path.read_text(encoding="utf-8").strip()


def _known(name: str, versions: Iterable[str]) -> dict[str, str]:
    told = ", ".join(sorted(set(versions)))  # one installation has several names
    return {name: told} if told else {}


def memory(index: int) -> _ort_memory.Memory:
    """Return memory of an AMD GPU: torch's, which calls it cuda as onnxruntime does."""
    return _ort_memory.TorchMemory("cuda", index, torch_device=f"cuda:{index}")
