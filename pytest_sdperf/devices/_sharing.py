"""Who else uses a GPU, judged without trusting process ids.

Drivers report the ids of the host. In a container these mean nothing, and a program does not find itself in the
list; so what is compared is how many processes there are and whether any of them can be ours.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path

_GIB = 2**30


def own_pids() -> frozenset[int]:
    """Return the ids of this process and of everything it started."""
    import psutil

    me = psutil.Process()
    try:
        return frozenset({me.pid, *(child.pid for child in me.children(recursive=True))})
    except psutil.Error:
        return frozenset({me.pid})


def holds_open(pids: Iterable[int], device_file: str) -> bool:
    """Whether one of these processes has `device_file` open (`/dev/nvidia-uvm`: it computes on an NVIDIA GPU)."""
    folders = (Path(f"/proc/{pid}/fd") for pid in pids)
    return any(_target(link) == device_file for folder in folders for link in _entries(folder))


def other_processes(listed: Collection[int], device_file: str) -> int | None:
    """Count the processes on a device that are not ours.

    Args:
        listed: Process ids that the driver lists for the device.
        device_file: File that a process opens to compute on this vendor's devices.

    Returns:
        The count; None if ours may be among them under ids that mean nothing here.
    """
    import psutil

    ours = own_pids()
    foreign = set(listed) - ours
    unseen = [pid for pid in foreign if not psutil.pid_exists(pid)]
    if unseen and holds_open(ours, device_file):
        return None
    return len(foreign)


def foreign_memory(used_bytes: int | None, total_bytes: int | None, device_file: str) -> str | None:
    """Say that a device is in use although no process of ours computes; None if it is not or the machine cannot tell.

    The limit leaves room for a desktop: 2 GiB or a tenth of the memory, whichever is more.
    """
    if used_bytes is None or total_bytes is None or not sys.platform.startswith("linux"):
        return None
    if used_bytes <= max(2 * _GIB, total_bytes // 10) or holds_open(own_pids(), device_file):
        return None
    return (
        f"{used_bytes / _GIB:.1f} of {total_bytes / _GIB:.1f} GiB of device memory are in use "
        "although no process of this run uses the device."
    )


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process ended, or belongs to somebody else
        return []


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
