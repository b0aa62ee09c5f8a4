"""What the cache holds already, found out by a builder that may look and not build."""

from __future__ import annotations

from pathlib import Path

from pytest_sdperf.builds.cache import Cache, Entry, Make
from pytest_sdperf.builds.manifest import MANIFEST
from pytest_sdperf.core.errors import SdperfError


class NotBuiltError(SdperfError):
    """An entry that the cache does not hold.

    Attributes:
        step: What would have made it: `weights`, `export`, `fuse-native`, ...
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"the cache does not hold {key}")
        self.step = key.rpartition("-")[0]


class Inventory(Cache):
    """A cache that only tells what is there.

    Attributes:
        seen: Step -> the entry that was asked for last.
    """

    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        super().__init__(folder, size_bytes=size_bytes)
        self.seen: dict[str, Entry] = {}

    def use(self, entry: Entry) -> Entry:
        """Return an entry, which is only looked at."""
        return entry

    def begins(self, key: str) -> bool:
        """Whether an entry is there whose key begins like this."""
        return any((path / MANIFEST).is_file() for path in self._entries.glob(f"{key}*") if ".new-" not in path.name)

    def get_or_make(self, key: str, make: Make) -> Entry:
        """Return an entry that is there; `make` is not called.

        Raises:
            NotBuiltError: It is not there.
        """
        entry = self.peek(key)
        if entry is None:
            raise NotBuiltError(key)
        self.seen[key.rpartition("-")[0]] = entry
        return entry
