"""What the two engines on TensorRT share: which release is installed, and the shapes that one engine serves.

PyPI has the bindings of TensorRT and stubs of its libraries; these come from NVIDIA's own index.
"""

from __future__ import annotations

import ctypes.util
import dataclasses
import importlib
import importlib.util
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.interpreter import pip

INDEX = "https://pypi.nvidia.com"
LIBRARIES = "tensorrt_libs"
# Where nothing tells which CUDA there is: that of the torch and the onnxruntime that PyPI has now.
_USUAL_CUDA = 13
_VERSION = re.compile(r"^__version__\s*=\s*[\"']([\d.]+)[\"']", re.MULTILINE)
# Smaller pictures than this have latents that the lowest blocks of a UNet cannot halve.
_SMALLEST_SIDE = 64

Shape = tuple[int, ...]


def requirement(releases: str, *, cuda: int | None) -> str:
    """Return what to install: TensorRT has a package for each major version of CUDA.

    Args:
        releases: Of TensorRT, as pip writes it: `<11`.
        cuda: Major version of CUDA that it shall be built for; None if nobody can tell.
    """
    return f"tensorrt-cu{cuda or _USUAL_CUDA}{releases}"


def install_command(requirement: str) -> str:
    """Return the command that installs TensorRT with its libraries."""
    return f"{pip()} install --extra-index-url {INDEX} '{requirement}'"


def find_release() -> str | None:
    """Return the version of TensorRT that `import tensorrt` would load; None if there is none."""
    for module in ("tensorrt_bindings", "tensorrt"):
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            continue
        found = _VERSION.search(Path(spec.origin).read_text(encoding="utf-8"))
        if found:
            return found.group(1)
    return None


def has_libraries() -> bool:
    """Whether the libraries are here, of a wheel or of the system: the bindings alone can do nothing."""
    return importlib.util.find_spec(LIBRARIES) is not None or ctypes.util.find_library("nvinfer") is not None


def missing_release(requirement: str) -> str | None:
    """Say why TensorRT cannot be loaded here; None if it can.

    Args:
        requirement: What to install.
    """
    install = f"type: {install_command(requirement)}"
    release = find_release()
    if release is None:
        other = ""
        if importlib.util.find_spec("tensorrt_rtx") is not None:
            other = (
                " (tensorrt_rtx, which is, is another product: it runs on compute capability 8.6, 8.9 and from 12.0 "
                "on, and so on no A100, H100, H200 or B200)"
            )
        return f"TensorRT is not installed{other}; PyPI has its bindings only, so {install}"
    if not has_libraries():
        return f"of TensorRT {release} the Python bindings are installed and the libraries are not; {install}"
    return None


def load_libraries() -> None:
    """Load the libraries of the wheels, so that whatever links them finds them; those of a system are found anyway."""
    with suppress(ImportError):
        importlib.import_module(LIBRARIES)


def ranges(request: LoadRequest) -> Mapping[str, tuple[Shape, Shape, Shape]]:
    """Return input -> smallest, best and largest shape of a dynamic build.

    One engine serves everything from one picture with sides of half the length up to the request itself, for which it
    is tuned.
    """
    workload = request.workload
    smallest = dataclasses.replace(
        workload, batch_size=1, height=_half_of(workload.height), width=_half_of(workload.width)
    )
    small, whole = (
        {spec.name: spec.shape for spec in request.model.inputs(request.component, work)}
        for work in (smallest, workload)
    )
    return {name: (small[name], shape, shape) for name, shape in whole.items()}


def _half_of(side: int) -> int:
    return max(_SMALLEST_SIDE, side // 2 // _SMALLEST_SIDE * _SMALLEST_SIDE)
