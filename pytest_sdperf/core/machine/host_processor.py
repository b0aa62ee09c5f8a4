"""How long the threads of this process waited for a processor that something else used, as the kernel counts it.

Linux tells of each thread how long it ran and how long it was ready to run and had to wait. That is exact inside a
container too, where the load of the whole machine says nothing about the processors that one has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_THREADS = Path("/proc/self/task")


@dataclass
class Waited:
    """What was seen between two moments.

    Attributes:
        share: Time that threads waited, of the time that they ran or waited; None where the kernel does not tell.
    """

    share: float | None = None


@contextlib.contextmanager
def watch_waiting(threads: Path = _THREADS) -> Iterator[Waited]:
    """Watch what happens inside, and say it afterwards.

    Args:
        threads: Folder with one folder per thread.
    """
    waited, before = Waited(), _read(threads)
    yield waited
    after = _read(threads)
    ran = sum(after[thread][0] - before.get(thread, (0, 0))[0] for thread in after)
    lost = sum(after[thread][1] - before.get(thread, (0, 0))[1] for thread in after)
    if before and ran > 0:
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
