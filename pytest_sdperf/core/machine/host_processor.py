"""How long the threads of this process waited for a processor that something else used, as the kernel counts it.

Linux tells of each thread how long it ran and how long it was ready to run and had to wait. That is exact inside a
container too, where the load of the whole machine says nothing about the processors that one has. But threads wait for
each other as well: each session of onnxruntime has threads of its own, which spin for a while when their call is over.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core import clock

_THREADS, _STAT = Path("/proc/self/task"), Path("/proc/stat")
_NS = 1e9


@dataclass
class Waited:
    """What was seen between two moments.

    Attributes:
        share: Time that threads waited, of the time that they ran or waited; None where the kernel does not tell.
    """

    share: float | None = None


@contextlib.contextmanager
def watch_waiting(threads: Path = _THREADS, stat: Path = _STAT) -> Iterator[Waited]:
    """Watch what happens inside, and say it afterwards.

    Args:
        threads: Folder with one folder per thread.
        stat: File with the idle time of each processor.
    """
    waited, before, idle, start_s = Waited(), _read(threads), _idle_s(stat), clock.monotonic_s()
    yield waited
    elapsed_s, after, now_idle = clock.monotonic_s() - start_s, _read(threads), _idle_s(stat)
    ran = sum(after[thread][0] - before.get(thread, (0, 0))[0] for thread in after)
    lost: float = sum(after[thread][1] - before.get(thread, (0, 0))[1] for thread in after)
    if not (before and ran > 0):
        return
    if idle and idle.keys() == now_idle.keys():
        # What neither was idle nor ran this process ran something else, for which on each processor a thread waited.
        here_s = sum(elapsed_s - (now_idle[name] - idle[name]) for name in idle)
        lost = min(lost, len(idle) * max(here_s * _NS - ran, 0.0))
    waited.share = lost / (ran + lost)


def _read(threads: Path) -> Mapping[str, tuple[int, int]]:
    """Return thread -> nanoseconds that it ran, and that it waited; empty where nobody counts them."""
    found: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(OSError):
        for thread in threads.iterdir():
            # One may end meanwhile.
            with contextlib.suppress(OSError, ValueError):
                ran, waited, *_ = map(int, (thread / "schedstat").read_text(encoding="ascii").split())
                found[thread.name] = ran, waited
    return found


def _idle_s(stat: Path) -> Mapping[str, float]:
    """Return processor that this process may use -> seconds that it was idle; empty where nobody counts them."""
    found: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError, LookupError, AttributeError):  # two of these names are Linux's alone
        ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        second = os.sysconf("SC_CLK_TCK")
        for line in stat.read_text(encoding="ascii").splitlines():
            name, *ticks = line.split()
            if name in ours:
                found[name] = (int(ticks[3]) + int(ticks[4])) / second  # idle, and idle beside input and output
    return found
