"""Versions of the CUDA libraries in this process, asked of the libraries themselves; and of CUDA before any is loaded.

Where they come from (torch, pip packages of their own, a system-wide CUDA) does not matter then, and a change of one of
them, which changes kernels, is told beside what it changed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from pathlib import Path

MAPS = Path("/proc/self/maps")  # Linux shows here which files are loaded
_DRIVERS = ("libcuda.so.1", "nvcuda.dll")
_TORCH_CUDA = re.compile(r"^cuda\b.*=\s*[\"'](\d+)\.", re.MULTILINE)
_LOADED = re.compile(r"/\S*/lib(cudart|cublas|cudnn)\.so\.\d[\d.]*")


def versions() -> dict[str, str]:
    """Return the versions of `cuda`, `cublas` and `cudnn`, of those that are loaded."""
    try:
        maps = MAPS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    asked = {"cudart": ("cuda", _runtime), "cublas": ("cublas", _cublas), "cudnn": ("cudnn", _cudnn)}
    found = {}
    for match in _LOADED.finditer(maps):
        name, ask = asked[match.group(1)]
        found[name] = ask(ctypes.CDLL(match.group(0)))
    return found


def _runtime(library: ctypes.CDLL) -> str:
    """Spell 13000 as 13.0."""
    version = ctypes.c_int()
    library.cudaRuntimeGetVersion(ctypes.byref(version))
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def _cublas(library: ctypes.CDLL) -> str:
    """Ask for the properties major, minor and patch."""
    version = ctypes.c_int()
    parts = []
    for part in range(3):
        library.cublasGetProperty(part, ctypes.byref(version))
        parts.append(str(version.value))
    return ".".join(parts)


def _cudnn(library: ctypes.CDLL) -> str:
    """Spell 92400 as 9.24.0; before version 9 it was 8902 for 8.9.2."""
    library.cudnnGetVersion.restype = ctypes.c_size_t
    version = int(library.cudnnGetVersion())
    base = 10_000 if version >= 90_000 else 1000
    return f"{version // base}.{version % base // 100}.{version % 100}"


def cuda_to_serve() -> int | None:
    """Return the major version of CUDA for which packages are to be installed here; None if nothing tells it.

    A torch that is built for CUDA has its libraries already, and one process loads them once. Without one the driver
    decides: it runs what is built for its own version and for earlier ones.
    """
    return _torch_cuda() or _driver_cuda()


def _torch_cuda() -> int | None:
    """Read it in torch's file of versions: importing torch takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name("version.py")
    found = _TORCH_CUDA.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    return int(found.group(1)) if found else None


def _driver_cuda() -> int | None:
    """Spell 12080 as 12. The question starts nothing on a device."""
    for name in _DRIVERS:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        version = ctypes.c_int()
        library.cuDriverGetVersion(ctypes.byref(version))
        return version.value // 1000 or None
    return None
