"""Versions of the CUDA libraries in this process, asked of the libraries themselves.

Where they come from (torch, pip packages of their own, a system-wide CUDA) does not matter then, and a change of one of
them, which changes kernels, is told beside what it changed.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

MAPS = Path("/proc/self/maps")  # Linux shows here which files are loaded
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
