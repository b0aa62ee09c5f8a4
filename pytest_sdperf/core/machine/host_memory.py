"""Memory of the host, as the kernel counts it: the peak of this process, and what is free."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def reset_peak() -> bool:
    """Start a new peak from the current resident size; False where the kernel cannot (only Linux can)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Return the largest resident size since the last reset in bytes; None where it cannot be known."""
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def available_bytes() -> int | None:
    """Return how much memory a process may still take without swapping; None where it cannot be known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
