"""What ONNX Runtime has said in this process about things that it answers no question about.

A worker's stderr is a file, and Linux shows a process its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

STDERR = Path("/proc/self/fd/2")
# Levels of severity of its loggers. The default logger is the one that arenas speak through.
_INFO, _WARNING = 1, 2
# [I:onnxruntime:Default, bfc_arena.cc:335 AllocateRawInternal] Extending BFCArena for Cuda. bin_num:15 (requested) ..
# [I:onnxruntime:Default, bfc_arena.cc:205 Extend] Extended allocation by 16777216 bytes.
# [I:onnxruntime:Default, bfc_arena.cc:246 Reserve] Reserving memory in BFCArena for Cuda size: 1048576
_ARENA = re.compile(
    r"Extending BFCArena for (?P<extending>\w+)|Extended allocation by (?P<extended>\d+) bytes"
    r"|Reserving memory in BFCArena for (?P<reserving>\w+) size: (?P<reserved>\d+)"
)


def told() -> str | None:
    """Return everything that was said so far; None where it cannot be read."""
    return STDERR.read_text(encoding="utf-8", errors="replace") if STDERR.is_file() else None


def listen(onnxruntime: Any, *, to_arenas: bool) -> None:
    """Have arenas say when they grow, or say nothing, as while something is timed."""
    onnxruntime.set_default_logger_severity(_INFO if to_arenas else _WARNING)


def memcpy_nodes(component: str) -> int | None:
    """Return how many copies between CPU and GPU were put into the graph; None where what was said cannot be read.

    The session says it when it is created, as a warning, and only if there are any:
    `[W:onnxruntime:unet, ..] 3 Memcpy nodes are added to the graph main_graph for CUDAExecutionProvider.`
    """
    said = told()
    if said is None:
        return None
    pattern = rf"onnxruntime:{re.escape(component)}, .* (\d+) Memcpy nodes are added"
    return sum(int(count) for count in re.findall(pattern, said))


def arena_bytes(device: str) -> int | None:
    """Return the bytes that the arenas of all sessions of this process hold on a device; they give nothing back.

    Args:
        device: As arenas call it: `Cuda`, `Cpu`.

    Returns:
        The blocks that they took, initializers included, whether in use or not; None where none has said anything.
    """
    held, growing, heard = 0, "", False
    for match in _ARENA.finditer(told() or ""):
        growing = match["extending"] or growing
        if device in (match["reserving"], growing if match["extended"] else None):
            held, heard = held + int(match["extended"] or match["reserved"]), True
    return held if heard else None
