"""Which cache entries the running processes use, so that none of them loses a model that it loads.

Below `uses/`: every user holds the lock `<name>.lock` while it lives and lists its keys in `<name>.keys`. The kernel
releases the lock of a process that ends in any way, so neither process ids nor clocks are trusted.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

import filelock

_LOCK, _KEYS = ".lock", ".keys"
_DOOR = "door"


class Leases:
    """The uses of one cache folder, seen from one of its users."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: Path | None = None
        self._keys: set[str] = set()
        self._ages: dict[str, tuple[float, float]] = {}
        self._thread = threading.Lock()

    def add(self, key: str) -> None:
        """Announce that this user is about to read the entry at `key`, and keeps it until it ends.

        Raises:
            OSError: The folder cannot be written.
        """
        if key in self._keys:
            return
        with self.door():
            self._keys.add(key)
            if self._own is None:
                self._own = self._begin()
            with self._own.with_suffix(_KEYS).open("a", encoding="utf-8") as file:
                file.write(f"{key}\n")

    def remove(self, keys: Iterable[str]) -> None:
        """Announce that this user needs entries no longer.

        Raises:
            OSError: The folder cannot be written.
        """
        gone = self._keys.intersection(keys)
        if not gone or self._own is None:
            return
        with self.door():
            self._keys -= gone
            text = "".join(f"{key}\n" for key in sorted(self._keys))
            self._own.with_suffix(_KEYS).write_text(text, encoding="utf-8")

    def touched(self, key: str, *, before_s: float, now_s: float) -> None:
        """Remember that this user set the age of an entry, and which one it had from others."""
        known_s, own_s = self._ages.get(key, (before_s, -1.0))
        self._ages[key] = (known_s if before_s == own_s else before_s, now_s)

    def by_others_s(self, key: str, used_s: float) -> float:
        """Return when others used an entry last, by its age: what this user did to that is nobody's use any more."""
        before_s, own_s = self._ages.get(key, (used_s, -1.0))
        return before_s if used_s == own_s else used_s

    @contextlib.contextmanager
    def door(self) -> Iterator[None]:
        """Keep every user from announcing, so that what is not in use may be removed."""
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._thread, filelock.FileLock(self._folder / _DOOR, mode=0o600):
            yield

    def held(self) -> frozenset[str]:
        """Return the keys that users hold, and remove what users left that have ended; only inside `door`."""
        keys = set(self._keys)
        for path in self._folder.glob(f"*{_LOCK}"):
            if path != self._own and not _remove_if_ended(path):
                with contextlib.suppress(OSError):
                    keys.update(path.with_suffix(_KEYS).read_text(encoding="utf-8").split())
        return frozenset(keys)

    def _begin(self) -> Path:
        handle, name = tempfile.mkstemp(suffix=_LOCK, dir=self._folder)
        os.close(handle)
        # Not bound to a thread: it is held until this user ends, whichever thread announced first.
        lock = filelock.FileLock(name, mode=0o600, thread_local=False)
        lock.acquire()
        weakref.finalize(self, _end, lock, Path(name))
        return Path(name)


def _end(lock: filelock.BaseFileLock, path: Path) -> None:
    lock.release(force=True)
    for left_over in (path, path.with_suffix(_KEYS)):
        with contextlib.suppress(OSError):
            left_over.unlink(missing_ok=True)


def _remove_if_ended(path: Path) -> bool:
    lock = filelock.FileLock(path, mode=0o600, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        return False
    _end(lock, path)
    return True
