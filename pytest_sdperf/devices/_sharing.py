"""Who else uses a GPU, judged without trusting process ids.

Drivers report the ids of the host. In a container these mean nothing, and a program does not find itself in the
list; so what is compared is how many processes there are and whether any of them can be ours.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from pytest_sdperf.core.values.remark import Remark

_GIB = 2**30
_IDS = range(1, 2**31)


def own_pids() -> frozenset[int]:
    """Return the ids of this process and of everything it started."""
    import psutil

    me = psutil.Process()
    try:
        return frozenset({me.pid, *(child.pid for child in me.children(recursive=True))})
    except psutil.Error:
        return frozenset({me.pid})


def holds_open(pids: Iterable[int], device_file: str) -> bool | None:
    """Whether one of these processes has `device_file` open (`/dev/nvidia-uvm`: it computes on an NVIDIA GPU).

    None where there is no such file, as under WSL2 and on a Jetson, where processes compute without it.
    """
    if not Path(device_file).exists():
        return None
    folders = (Path(f"/proc/{pid}/fd") for pid in pids)
    return any(_target(link) == device_file for folder in folders for link in _entries(folder))


def other_processes(listed: Collection[Any], device_file: str) -> int | None:
    """Count the processes on a device that are not ours.

    Args:
        listed: Process ids that the driver lists for the device.
        device_file: File that a process opens to compute on this vendor's devices.

    Returns:
        The count; None if ours may be among them under ids that mean nothing here, or if they are no ids at all, as
        where a library is newer than its driver and reads the list wrongly.
    """
    import psutil

    if not all(isinstance(pid, int) and pid in _IDS for pid in listed):
        return None
    ours = own_pids()
    foreign = set(listed) - ours
    unseen = [pid for pid in foreign if not psutil.pid_exists(pid)]
    if unseen and holds_open(ours, device_file) is not False:
        return None
    return len(foreign)


def foreign_memory(
    used_bytes: int | None, total_bytes: int | None, device_file: str
) -> tuple[tuple[str, ...], tuple[Remark, ...]]:
    """Say that a device is in use although no process of ours computes.

    The limit leaves room for a desktop: 2 GiB or a tenth of the memory, whichever is more.

    Returns:
        Why a measurement taken now would not be fit to be judged, and what is only worth recording: where the device
        file does not exist, nobody can tell whose memory it is.
    """
    if used_bytes is None or total_bytes is None or not sys.platform.startswith("linux"):
        return (), ()
    if used_bytes <= max(2 * _GIB, total_bytes // 10):
        return (), ()
    ours = holds_open(own_pids(), device_file)
    told = f"{used_bytes / _GIB:.1f} of {total_bytes / _GIB:.1f} GiB of device memory are in use"
    if ours is None:
        text = f"{told}, and this machine cannot tell by whom: it has no {device_file}."
        return (), (Remark(text, "device memory in use", used_bytes / _GIB),)
    return () if ours else (f"{told} although no process of this run uses the device.",), ()


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
