"""One process at a time uses a device: all those of one user and one state folder take turns, by a lock on a file."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock

from pytest_sdperf.core import clock, progress
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.units import duration
from pytest_sdperf.core.values.lock_wait import LockWait

_WAIT_BEFORE_SAYING_S = 1.0


@dataclass(frozen=True)
class LockHolder:
    """Who has a device.

    Attributes:
        run: Names the run.
        pid: Its process.
        since_s: Since when, in seconds since 1970.
        what: What it does.
    """

    run: str
    pid: int
    since_s: float
    what: str

    def __str__(self) -> str:
        """Say it in words: `process 4242 has it since 10:41 UTC, for sd15 unet at fp16 on ort-cuda`."""
        since = datetime.datetime.fromtimestamp(self.since_s, datetime.UTC)
        return f"process {self.pid} has it since {since:%H:%M} UTC, for {self.what}"


class DeviceLock:
    """The turns of one process on one device.

    Example::

        with turns.alone("sd15 unet at fp16 on ort-cuda") as turn:
            ...  # nothing else of this user measures on the device
        print(turn().waited_s)

    Args:
        device: The device.
        state_dir: Folder that everybody shares.
        run: Names this run, whose own processes wait for each other silently.
        say: Prints one line of progress.
    """

    def __init__(self, device: Device, state_dir: Path, *, run: str, say: Callable[[str], None]) -> None:
        # Two cards of one kind do not wait for each other; a UUID is never written to a disk.
        card = hashlib.sha256(device.physical.encode()).hexdigest()[:12] if device.physical else device.slug
        self._path = state_dir / "locks" / f"measure-{card}.lock"
        self._device, self._state_dir, self._run, self._say = device, state_dir, run, say
        # Each thread takes turns like a process does; inside its turn it may ask again.
        self._lock = filelock.FileLock(self._path)

    @contextlib.contextmanager
    def alone(self, what: str) -> Iterator[Callable[[], LockWait]]:
        """Wait until nobody else has the device, and keep others waiting meanwhile; give what tells the turn.

        Args:
            what: What is done, for those who wait.

        Raises:
            OptionError: The lock cannot be written.
        """
        asked_s, nested = clock.wall_s(), self._lock.is_locked
        waited_for = self._acquire()
        began_s = clock.wall_s()
        try:
            if not nested:
                self._tell(LockHolder(self._run, os.getpid(), began_s, what))
            yield lambda: LockWait(self._device.index, began_s, clock.wall_s(), began_s - asked_s, waited_for)
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def alone_on_gpu(self, what: str) -> Iterator[None]:
        """Do the same on a GPU; on a CPU, which everybody uses, only measurements take turns."""
        with contextlib.nullcontext() if self._device.kind == "cpu" else self.alone(what):
            yield

    @contextlib.contextmanager
    def alone_if_free(self, what: str) -> Iterator[bool]:
        """Keep others waiting for the device, unless somebody has it: then say so at once.

        Args:
            what: What is done, for those who wait.
        """
        nested = self._lock.is_locked
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except (filelock.Timeout, OSError):
            yield False
            return
        try:
            if not nested:
                self._tell(LockHolder(self._run, os.getpid(), clock.wall_s(), what))
            yield True
        finally:
            self._lock.release()

    def _acquire(self) -> str:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=_WAIT_BEFORE_SAYING_S)
        except filelock.Timeout:
            return self._wait()
        except OSError as error:
            raise OptionError(
                f"the state folder {self._state_dir} cannot be written: {error.strerror}. Make it writable, or choose "
                "another folder with --sdperf-state-dir=FOLDER."
            ) from error
        return ""

    def _wait(self) -> str:
        """Wait for as long as it takes; return who has the device if that is another run, which is said."""
        holder, began_s = self._holder(), clock.wall_s()
        if holder is not None and holder.run == self._run:
            self._lock.acquire()
            return ""
        told = str(holder) if holder is not None else "another process has it"
        self._say(f"waiting for {self._device.name}: {told}")
        with progress.step(f"waiting for {self._device.name}, {told}"):
            self._lock.acquire()
        waited_s = clock.wall_s() - began_s + _WAIT_BEFORE_SAYING_S
        self._say(f"waited {duration(waited_s)} for {self._device.name}")
        return told

    def _tell(self, holder: LockHolder) -> None:
        with contextlib.suppress(OSError):  # the lock is what counts
            self._path.with_suffix(".json").write_text(json.dumps(asdict(holder)), encoding="utf-8")

    def _holder(self) -> LockHolder | None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            return LockHolder(**json.loads(self._path.with_suffix(".json").read_text(encoding="utf-8")))
        return None
