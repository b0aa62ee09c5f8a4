"""What a GPU did during a few calls, as torch's profiler saw it.

The profiler listens to the driver (CUPTI, roctracer), so it sees the kernels of every library in the process. Runs in
the worker, after everything else: listening costs time, and with older CUDA no graph can be replayed afterwards.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_sdperf.core.values.facts import Launches, SlowKernel
from pytest_sdperf.tasks.sampling.kernels import NONE_ON_CPU, OTHER, kind_of, without_tensor_cores

# When something ran on the device: begin and end in seconds of the profiler's clock.
Interval = tuple[float, float]

CALLS = 3
NAMES_KEPT, LONGEST_NAME = 5, 200
# What a profiler calls everything that runs on the GPU. Annotations of the GPU's time line are none of it.
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_MOVED = {"gpu_memcpy": "copy", "gpu_memset": "memset"}
# cudaLaunchKernel, cudaLaunchKernelExC_v11060, cuLaunchKernel, hipExtModuleLaunchKernel
_LAUNCH = re.compile(r"^(cuda|cu|hip)\w*Launch\w*Kernel")
# cudaGraphLaunch, cuGraphLaunch_v2, hipGraphLaunch
_REPLAY = re.compile(r"^(cuda|cu|hip)GraphLaunch")
# What makes the host wait: cudaStreamSynchronize, cudaDeviceSynchronize, hipEventSynchronize
_WAIT = re.compile(r"^(cuda|hip)(Stream|Device|Event)Synchronize")
# Memcpy DtoH (Device -> Pageable), CopyDeviceToHost
_TO_HOST = re.compile(r"DtoH|DeviceToHost")
_HOST = {"replays": _REPLAY, "launches": _LAUNCH, "waits": _WAIT}


@dataclass(frozen=True)
class Activity:
    """What one call did, the average of those that were watched.

    Attributes:
        kernels: Kind -> `count` and `seconds`, longest first. Kernels may run side by side, so together they can take
            longer than the call.
        busy_s: Seconds in which the device did anything at all.
        others: Names of the longest kernels whose kind is not known.
        without_tensor_cores: Kind -> `count` and `seconds` of those that `kernels.without_tensor_cores` names.
        busy_without_tensor_cores_s: Seconds in which any of them ran.
        slowest: The kernels that take most: `name`, `kind`, `count` and `seconds` of each.
        replays: Launches of captured graphs.
        launches: Kernels that the host launched one by one.
        synchronizations: Times at which the host waited for the device, less the one that ends each call.
        copies_to_host: Copies from the device to the host.
        unseen: Why nothing is known; empty where something is.
    """

    kernels: Mapping[str, Launches] = field(default_factory=dict)
    busy_s: float = 0.0
    others: tuple[str, ...] = ()
    without_tensor_cores: Mapping[str, Launches] = field(default_factory=dict)
    busy_without_tensor_cores_s: float = 0.0
    slowest: tuple[SlowKernel, ...] = ()
    replays: int = 0
    launches: int = 0
    synchronizations: int = 0
    copies_to_host: int = 0
    unseen: str = ""


def watched(call: Callable[[], None], *, device_kind: str, folder: Path, calls: int = CALLS) -> Activity:
    """Make some more calls and return what the GPU did during one of them.

    Args:
        call: One complete, synchronized call.
        device_kind: Where it runs.
        folder: Place for the profiler's file, which is removed again.
        calls: How many to make.
    """
    unseen = _unseen(device_kind)
    if unseen:
        return Activity(unseen=unseen)
    try:
        events = _events(call, folder / "activity.json", calls=calls)
    except Exception as error:  # noqa: BLE001 - whatever a profiler raises, the times are measured already
        return Activity(unseen=f"torch's profiler failed: {type(error).__name__}: {error}"[:300])
    return summed(events, calls=calls)


def _unseen(device_kind: str) -> str:
    if device_kind == "cpu":
        return NONE_ON_CPU
    if importlib.util.find_spec("torch") is None:
        return "torch, whose profiler sees kernels, is not installed beside the engine"
    import torch

    return "" if torch.cuda.is_available() else f"torch {torch.__version__} beside the engine is not for this GPU"


def _events(call: Callable[[], None], path: Path, *, calls: int) -> list[Mapping[str, Any]]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            call()
    # The file, not `events()`: that builds a tree of the host's operators, of which there are none here.
    seen.export_chrome_trace(str(path))
    try:
        events: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    finally:
        path.unlink()
    return events


def summed(events: Iterable[Mapping[str, Any]], *, calls: int) -> Activity:
    """Add up what a profiler recorded.

    Args:
        events: As in the file of `torch.profiler`: `cat`, `name`, and `ts` and `dur` in microseconds.
        calls: How many calls they are from.
    """
    named: dict[tuple[str, str], list[Interval]] = {}
    counted: Counter[str] = Counter()
    for event in events:
        category, name = event.get("cat"), str(event.get("name", ""))
        if category in _ON_DEVICE:
            kind = _MOVED.get(category) or kind_of(name)
            named.setdefault((kind, name[:LONGEST_NAME]), []).append(_interval(event))
            counted["to_host"] += category == "gpu_memcpy" and bool(_TO_HOST.search(name))
        else:
            counted.update(what for what, pattern in _HOST.items() if pattern.match(name))
    # Each call is ended by one of ours, and the profiler ends with one of its own.
    counted["waits"] = max(0, counted["waits"] - calls - 1)
    per_call = {what: round(counted[what] / calls) for what in ("to_host", *_HOST)}
    replays, launches = per_call["replays"], per_call["launches"]
    if not named:
        return Activity(replays=replays, launches=launches, unseen="torch's profiler saw no kernel")
    scalar = {one: each for one, each in named.items() if without_tensor_cores(one[1])}
    slowest = sorted(named, key=lambda one: -_together(named[one]))
    return Activity(
        kernels=_by_kind(named, calls),
        busy_s=_covered(named.values()) / calls,
        others=tuple(name for kind, name in slowest if kind == OTHER)[:NAMES_KEPT],
        without_tensor_cores=_by_kind(scalar, calls),
        busy_without_tensor_cores_s=_covered(scalar.values()) / calls,
        slowest=tuple({"name": one[1], "kind": one[0], **_sum(named[one], calls)} for one in slowest[:NAMES_KEPT]),
        replays=replays,
        launches=launches,
        synchronizations=per_call["waits"],
        copies_to_host=per_call["to_host"],
    )


def _interval(event: Mapping[str, Any]) -> Interval:
    begin = event.get("ts", 0.0) / 1e6
    return begin, begin + event.get("dur", 0.0) / 1e6


def _together(intervals: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)


def _covered(groups: Iterable[Iterable[Interval]]) -> float:
    """Return the seconds that are in any interval."""
    covered, until = 0.0, -math.inf
    for begin, end in sorted(one for group in groups for one in group):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


def _by_kind(named: Mapping[tuple[str, str], Sequence[Interval]], calls: int) -> dict[str, Launches]:
    """Return kind -> `count` and `seconds` of one call, longest first."""
    kinds: dict[str, list[Interval]] = {}
    for (kind, _), each in named.items():
        kinds.setdefault(kind, []).extend(each)
    return {kind: _sum(kinds[kind], calls) for kind in sorted(kinds, key=lambda kind: -_together(kinds[kind]))}


def _sum(intervals: Sequence[Interval], calls: int) -> Launches:
    return {"count": round(len(intervals) / calls), "seconds": _together(intervals) / calls}
