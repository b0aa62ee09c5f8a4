"""Measurements of one device take turns, also those of several pytest processes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from pytest_sdperf.device import Device
from pytest_sdperf.errors import OptionError

_WAIT_BEFORE_SAYING_S = 1.0


@contextlib.contextmanager
def measuring_alone(device: Device, state_dir: Path, *, say: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other process of this user measures on the device, and keep others waiting meanwhile.

    Raises:
        OptionError: The lock cannot be written.
    """
    folder = state_dir / "locks"
    # Two cards of one kind do not wait for each other; a UUID is never written to a disk.
    card = f"-{hashlib.sha256(device.uuid.encode()).hexdigest()[:12]}" if device.uuid else ""
    lock = filelock.FileLock(folder / f"measure-{device.slug}{card}.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=_WAIT_BEFORE_SAYING_S)
    except filelock.Timeout:
        say(f"waiting for another process that measures on {device.name}")
        lock.acquire()
    except OSError as error:
        raise OptionError(
            f"the state folder {state_dir} cannot be written: {error.strerror}. Make it writable, or choose another "
            "folder with --sdperf-state-dir=FOLDER."
        ) from error
    try:
        yield
    finally:
        lock.release()
