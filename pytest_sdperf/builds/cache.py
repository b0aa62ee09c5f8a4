"""Built artifacts on disk, addressed by what went into them.

Layout below the cache folder: `entries/<key>/` holds the files of one artifact and `manifest.json` (names, sizes,
SHA-256, metadata); `locks/<key>.lock` lets one process build while others wait; `uses/` says which entries are in
use. An entry appears by one rename, so it is whole or absent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.key_locks import KeyLocks
from pytest_sdperf.builds.leases import Leases
from pytest_sdperf.builds.manifest import MANIFEST, manifest_of, used_s, verify
from pytest_sdperf.core import clock
from pytest_sdperf.core.errors import CacheError
from pytest_sdperf.core.files.disk import disk_errors, folder_bytes, free_bytes
from pytest_sdperf.core.units import disk_size
from pytest_sdperf.core.values.artifact import UNKNOWN, Built

Make = Callable[[Path], dict[str, Any]]
# Not every file system keeps locks; on one that does not, only its age protects what another process loads.
RECENT_S = 600.0
# Of the room on a disk: others write to it, too.
_OF_DISK = 0.95
# Reading so much takes about a second, and nobody should wonder what happens meanwhile.
_TOLD_BYTES = 10**9


@dataclass(frozen=True)
class Entry:
    """One artifact.

    Attributes:
        key: Its address.
        path: Folder that holds its files.
        metadata: What `make` returned, plus nothing.
        made: Whether this call built it.
        now: Whether this run built it, in whichever of its processes.
        built: Where and when it was built.
        digest: Hash of the content of its files; equal digests hold equal bytes.
        size_bytes: Size of its files.
    """

    key: str
    path: Path
    metadata: Mapping[str, Any]
    made: bool
    digest: str
    size_bytes: int
    now: bool = False
    built: Built = UNKNOWN


@dataclass(frozen=True)
class Info:
    """State of a cache: its folder, number of entries and their size in bytes, least recently used first."""

    folder: Path
    entries: int
    size_bytes: int
    keys: tuple[str, ...] = field(default=())


class Cache:
    """A folder of artifacts that any number of processes may use at once.

    Example::

        cache = Cache(Path("~/.cache/sdperf").expanduser(), size_bytes=100 * 10**9)
        entry = cache.get_or_make("export-" + content_key({"opset": 18}), export_into)
    """

    def __init__(
        self, folder: Path, *, size_bytes: int, say: Callable[[str], None] = lambda text: None, built: Built = UNKNOWN
    ) -> None:
        self.folder = folder
        self.size_bytes = size_bytes
        self._built = built  # by this run
        self._say = say  # a line of progress
        self._entries = folder / "entries"
        self._locks = KeyLocks(folder / "locks", say=say)
        self._uses = Leases(folder / "uses")
        self._in_use: dict[str, Entry] = {}

    def get_or_make(self, key: str, make: Make) -> Entry:
        """Return the entry at `key`, building it with `make(folder) -> metadata` if it is absent or damaged.

        Args:
            key: File name characters only; the caller puts everything that touches the artifact into it.
            make: Fills an empty folder and returns JSON metadata. If it raises, nothing is left behind.

        Raises:
            CacheError: The folder cannot be written, or the disk is full.
        """
        return self.find(key) or self.make(key, make)

    def find(self, key: str) -> Entry | None:
        """Return the entry at `key`, which this process uses from now on; None if it is absent, or damaged.

        Raises:
            CacheError: The folder cannot be read.
        """
        used = self._in_use.get(key)
        if used is not None and used.path.is_dir():
            return self.use(used)
        with disk_errors(self.folder):
            return self._take(key)

    def make(self, key: str, make: Make) -> Entry:
        """Build an entry that `find` did not find, unless another process has meanwhile.

        Arguments and errors as for `get_or_make`.
        """
        with disk_errors(self.folder):
            for folder in (self.folder, self._entries):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locks.wait_for(key):
                # Another process may have built it while this one waited for the lock.
                entry = self._read(key, silent=True) or self._build(key, make)
        self.use(entry)
        if entry.made:
            self.prune(self.size_bytes, spare_recent=True)
        return entry

    def check(self, keys: Iterable[str], *, threads: int) -> None:
        """Read entries side by side that will be asked for: `find` takes those that are whole without another look.

        Hashing lets other threads run. What is damaged is left to `find`, which says so.
        """
        found = [entry for key in keys if key not in self._in_use and (entry := self.peek(key)) is not None]
        found.sort(key=lambda entry: -entry.size_bytes)
        size_bytes = sum(entry.size_bytes for entry in found)
        if size_bytes >= _TOLD_BYTES:
            self._say(f"checking {disk_size(size_bytes)} of the cache")
        with ThreadPoolExecutor(threads, thread_name_prefix="sdperf-check") as pool:
            list(pool.map(lambda entry: self._take(entry.key, silent=True), found))

    def make_room(self, *, own: bool = True) -> bool:
        """Let the least recently used entries go until one more like the largest fits; return whether it does.

        Args:
            own: Whether those of this process may go, too.
        """
        if (missing := self._missing_bytes()) <= 0:
            return True
        with contextlib.suppress(OSError, CacheError):  # what cannot be written to cannot be pruned
            if own:
                self._uses.remove(self._in_use)
                self._in_use.clear()
            self.prune(self.info().size_bytes - missing, spare_recent=True)
        return self._missing_bytes() <= 0

    def peek(self, key: str) -> Entry | None:
        """Return an entry if it is there with files of the recorded sizes, which is all that is looked at."""
        return self._read(key, silent=True, hashed=False)

    def info(self) -> Info:
        """Return what the cache holds."""
        found = self._by_age()
        return Info(self.folder, len(found), sum(folder_bytes(path) for path in found), tuple(p.name for p in found))

    def prune(self, size_bytes: int, *, spare_recent: bool = False) -> tuple[str, ...]:
        """Remove the least recently used entries until at most `size_bytes` remain; return the removed keys.

        An entry that a running process uses or builds stays. What ended processes left is removed.

        Args:
            size_bytes: What may stay.
            spare_recent: Keep what others used within the last `RECENT_S`, too.

        Raises:
            CacheError: The folder cannot be written.
        """
        removed: dict[str, Path] = {}
        with disk_errors(self.folder):
            sizes = {path: folder_bytes(path) for path in self._by_age()}
            total = sum(sizes.values())
            with self._uses.door():
                kept = self._uses.held()
                for path, size in sizes.items():
                    if total <= size_bytes:
                        break
                    stays = path.name in kept or (spare_recent and self._is_recent(path))
                    aside = None if stays else self._aside_unless_locked(path.name)
                    if aside is not None:
                        removed[path.name] = aside
                        total -= size
            for aside in removed.values():
                shutil.rmtree(aside, ignore_errors=True)
            self._sweep()
        return tuple(removed)

    def _take(self, key: str, *, silent: bool = False) -> Entry | None:
        # Before it is read, or another process may remove it in between. A disk that is read-only serves what it holds.
        with contextlib.suppress(OSError):
            self._uses.add(key)
        entry = self._read(key, silent=silent)
        return self.use(entry) if entry is not None else None

    def use(self, entry: Entry) -> Entry:
        """Take an entry as one that is used now."""
        self._in_use[entry.key] = dataclasses.replace(entry, made=False)
        # A cache on a read-only disk still serves what it holds; only its ages stand still.
        with contextlib.suppress(OSError):
            before_s = 0.0 if entry.made else used_s(entry.path)
            os.utime(entry.path / MANIFEST)
            self._uses.touched(entry.key, before_s=before_s, now_s=used_s(entry.path))
        return entry

    def _missing_bytes(self) -> int:
        sizes = [folder_bytes(path) for path in self._by_age()]
        room = min(self.size_bytes - sum(sizes), int(_OF_DISK * free_bytes(self.folder)))
        return max(sizes, default=0) - room

    def _is_recent(self, path: Path) -> bool:
        return clock.wall_s() - self._uses.by_others_s(path.name, used_s(path)) < RECENT_S

    def _read(self, key: str, *, silent: bool = False, hashed: bool = True) -> Entry | None:
        path = self._entries / key
        if not path.is_dir():
            return None
        fault, manifest = verify(path, hashed=hashed)
        if fault:
            if not silent:
                self._say(f"cache entry {key} is damaged ({fault}); it is built again")
            return None
        return self._entry(key, path, manifest, made=False)

    def _build(self, key: str, make: Make) -> Entry:
        for left_over in self._entries.glob(f"{key}.new-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        building = Path(tempfile.mkdtemp(prefix=f"{key}.new-", dir=self._entries))
        try:
            built = dataclasses.replace(self._built, date=clock.today_utc())
            manifest = manifest_of(building, make(building), built)
            (building / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
            damaged = self._aside(key)
            building.rename(self._entries / key)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        if damaged is not None:
            shutil.rmtree(damaged, ignore_errors=True)
        return self._entry(key, self._entries / key, manifest, made=True)

    def _entry(self, key: str, path: Path, manifest: dict[str, Any], *, made: bool) -> Entry:
        files, built = manifest["files"], Built(**manifest.get("built", {}))
        return Entry(
            key,
            path,
            manifest["metadata"],
            made=made,
            digest=content_key({name: recorded["sha256"] for name, recorded in files.items()}),
            size_bytes=sum(recorded["bytes"] for recorded in files.values()),
            now=bool(built.run) and built.run == self._built.run,
            built=built,
        )

    def _by_age(self) -> list[Path]:
        if not self._entries.is_dir():
            return []
        found = [path for path in self._entries.iterdir() if (path / MANIFEST).is_file() and ".new-" not in path.name]
        return sorted(found, key=lambda path: (used_s(path), path.name))

    def _aside_unless_locked(self, key: str) -> Path | None:
        with self._locks.if_free(key) as mine:
            return self._aside(key) if mine else None

    def _aside(self, key: str) -> Path | None:
        """Rename an entry out of sight: a reader sees the whole entry or none, never half of one."""
        path = self._entries / key
        if not path.exists():
            return None
        doomed = Path(tempfile.mkdtemp(prefix=f"{key}.new-", dir=self._entries))
        path.rename(doomed / "old")
        return doomed

    def _sweep(self) -> None:
        """Remove locks of entries that are gone, and what processes left that were killed while they built."""
        left_overs = {path.name.partition(".new-")[0] for path in self._entries.glob("*.new-*")}
        for key in left_overs | {key for key in self._locks.keys if not (self._entries / key).exists()}:
            with self._locks.if_free(key) as mine:
                if not mine:
                    continue
                for left_over in self._entries.glob(f"{key}.new-*"):
                    shutil.rmtree(left_over, ignore_errors=True)
                if not (self._entries / key).exists():
                    self._locks.forget(key)
