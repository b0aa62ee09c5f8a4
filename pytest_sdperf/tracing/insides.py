"""What plain torch gave inside a component (`Runner.inside`), and where it is first not finite."""

from __future__ import annotations

import math
from pathlib import Path

from pytest_sdperf.core.files.arrays import leaves_range, load_arrays
from pytest_sdperf.core.values.located import Location

FILE = "inside.npz"  # beside the outputs
READ, CALL = "<", "#"  # after the path of a module: the number of what it read, and of its call


def plain_not_finite(exact: Path, plain: Path) -> Location | None:
    """Return where plain torch is first not finite, if that leaves an output without a reference error; else None.

    Args:
        exact: npz file with the outputs of torch in the reference type, `inside.npz` beside it.
        plain: The same in the type that is tested.
    """
    wanted, own = load_arrays(exact), load_arrays(plain)
    lost = [name for name, array in wanted.items() if leaves_range(own[name], array)]
    if not lost:
        return None
    wanted, own = (load_arrays(path.parent / FILE) for path in (exact, plain))
    for name, array in own.items():
        if READ not in name and name in wanted and leaves_range(array, wanted[name]):
            return Location("", "", "", name.partition(CALL)[0], math.inf, math.inf)
    return Location(lost[0], "", "", "", math.inf, math.inf)
