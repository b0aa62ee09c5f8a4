"""Named arrays in a file: how inputs and outputs travel between the suite and its workers. Never pickled.

And what is asked of every array first: whether it is finite, and whether it tells anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Path:
    """Write arrays by name to an npz file and return its path."""
    import numpy as np

    np.savez(path, allow_pickle=False, **arrays)
    return path


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read every array of an npz file."""
    import numpy as np

    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def not_finite(array: np.ndarray[Any, Any]) -> int:
    """Return how many values are not finite."""
    import numpy as np

    return int(np.size(array) - np.isfinite(array).sum())


def at_most_two_values(array: np.ndarray[Any, Any]) -> bool:
    """Whether there are two different values at most, as in a mask, the scales of a resize, or one number."""
    flat = array.reshape(-1)
    others = flat[flat != flat[0]] if flat.size else flat
    return not others.size or bool((others == others[0]).all())
