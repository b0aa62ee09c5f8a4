"""What the engines for AMD GPUs share: what must come from the ROCm installation and not from PyPI."""

from __future__ import annotations

import ctypes.util
import importlib.util
from pathlib import Path

from pytest_sdperf.engines import _ort_install, _ort_memory
from pytest_sdperf.interpreter import pip

_INSTALLATIONS = Path("/opt")


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


def memory(index: int) -> _ort_memory.Memory:
    """Return memory of an AMD GPU: torch's, which calls it cuda as onnxruntime does."""
    return _ort_memory.TorchMemory("cuda", index, torch_device=f"cuda:{index}")
