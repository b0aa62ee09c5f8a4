"""One lock per cache entry: one thread of one process builds it while others wait."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from pytest_sdperf.core import progress

_WAIT_BEFORE_SAYING_S = 1.0
# Locks that threads of this process hold, whichever cache they go through.
_HELD_HERE: set[Path] = set()


class KeyLocks:
    """The locks of one cache folder, `<key>.lock` each."""

    def __init__(self, folder: Path, *, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say

    @property
    def keys(self) -> frozenset[str]:
        """Keys that have a lock file."""
        return frozenset(path.stem for path in self._folder.glob("*.lock"))

    @contextlib.contextmanager
    def wait_for(self, key: str) -> Iterator[None]:
        """Hold the lock of a key, after whoever holds it now; nothing is said where this process itself builds it."""
        lock, path = self._lock(key), self._path(key).absolute()
        try:
            lock.acquire(timeout=_WAIT_BEFORE_SAYING_S)
        except filelock.Timeout:
            if path in _HELD_HERE:  # it is shown what is being built
                lock.acquire()
            else:
                self._say(f"waiting for another process that builds {key}")
                with progress.step(f"waiting for another process that builds {key}"):
                    lock.acquire()
        _HELD_HERE.add(path)
        try:
            yield
        finally:
            _HELD_HERE.discard(path)  # before anybody else can hold it
            lock.release()

    @contextlib.contextmanager
    def if_free(self, key: str) -> Iterator[bool]:
        """Hold the lock of a key if nobody else does; yield whether it is held."""
        lock = self._lock(key)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def forget(self, key: str) -> None:
        """Remove the file of a lock that the caller holds: whoever waits for it sees that and makes another."""
        # Windows keeps a file that is open, and removes this one on release.
        with contextlib.suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    def _lock(self, key: str) -> filelock.BaseFileLock:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return filelock.FileLock(self._path(key), mode=0o600)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.lock"
