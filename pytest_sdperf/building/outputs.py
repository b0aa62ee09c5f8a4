"""Outputs that are computed once and kept in the cache, under a name each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.building.cache import Cache
from pytest_sdperf.files.arrays import load_arrays

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

Compute = Callable[[Sequence[str]], Mapping[str, Any]]  # names -> path of an npz file by name

_FILE = "outputs.npz"


def cached_outputs(cache: Cache, keys: Mapping[str, str], compute: Compute) -> dict[str, Arrays]:
    """Return arrays by output name, under each name; what is not there yet is computed at once.

    Args:
        cache: Where they are kept.
        keys: Name -> key in the cache.
        compute: Computes those of some names, and returns their files, which are taken away.
    """
    missing = [name for name, key in keys.items() if not cache.has(key)]
    made = compute(missing) if missing else {}

    def entry(name: str) -> Path:
        def make(folder: Path) -> dict[str, Any]:
            # What was there may have been removed since: another process prunes the same cache.
            shutil.move(made.get(name) or compute([name])[name], folder / _FILE)
            return {}

        return cache.get_or_make(keys[name], make).path

    return {name: load_arrays(entry(name) / _FILE) for name in keys}
