"""Named arrays in a file: how inputs and outputs travel between the suite and its workers. Never pickled.

And what is asked of every array first: whether it is finite, and whether it tells anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

# Texts, because nothing here needs numpy to be imported.
Array: TypeAlias = "np.ndarray[Any, Any]"
Arrays: TypeAlias = "Mapping[str, np.ndarray[Any, Any]]"

MINUS_INFINITY = 1e30  # masks hold something larger for it, which no narrower type has


def save_arrays(path: Path, arrays: Arrays) -> Path:
    """Write arrays by name to an npz file and return its path.

    Raises:
        ValueError: One of them holds Python objects.
    """
    import numpy as np

    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ValueError(
                f"array {name!r} has the dtype {np.asarray(array).dtype}, which only pickle could write, and nothing "
                f"is pickled. Allowed are numbers: give it a dtype such as float32, array.astype('float32')."
            )
    # `np.savez` takes `allow_pickle` from numpy 2.2 on; before, an array of that name would be written.
    named: Mapping[str, Any] = arrays
    np.savez(path, **named)
    return path


def load_arrays(path: Path) -> dict[str, Array]:
    """Read every array of an npz file."""
    import numpy as np

    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def digest_of(arrays: Arrays) -> str:
    """Return 32 hex digits for names, types, shapes and contents."""
    import numpy as np

    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, str(array.dtype), array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def not_finite(array: Array) -> int:
    """Return how many values are not finite."""
    import numpy as np

    return int(np.size(array) - np.isfinite(array).sum())


def leaves_range(plain: Array, exact: Array) -> bool:
    """Whether one array holds values that are not finite where another one, of its shape, holds numbers."""
    import numpy as np

    return bool((~np.isfinite(plain) & (np.abs(exact) < MINUS_INFINITY)).any())


def at_most_two_values(array: Array) -> bool:
    """Whether there are two different values at most, as in a mask, the scales of a resize, or one number."""
    flat = array.reshape(-1)
    others = flat[flat != flat[0]] if flat.size else flat
    return not others.size or bool((others == others[0]).all())
