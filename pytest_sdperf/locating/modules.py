"""Look inside an engine that loads a torch module: its sub-modules are asked what they read and gave."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.agreement import floating_of
from pytest_sdperf.arrays import load_arrays, not_finite
from pytest_sdperf.comparing.tensors import relative_l2
from pytest_sdperf.located import Located, Spot
from pytest_sdperf.locating.question import Question, torch_outputs
from pytest_sdperf.yardsticks import FACTOR, HALF_UNIT, REFERENCE

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

READ, CALL = "<", "#"  # after the path of a module: the number of what it read, and of its call
_COMPILED = (
    "Nobody can look inside what {engine} compiled as one. The same module without it, on these inputs, is the "
    "yardstick and right: what the compiler makes of it is to blame."
)
_NO_FILES = (
    "No files that show it were made: a module of torch cannot be cut out with its class. Its weights are those under "
    "this path in the state of the component."
)


def search(question: Question) -> Located:
    """Find the first sub-module that is wrong.

    Args:
        question: A component whose engine loads a torch module.
    """
    runner, floating = question.runner, floating_of(question.runner)
    answer = runner.task("run", {**runner.arguments(question.inputs), "inside": True})
    if not answer["inside"]:
        return Located(runner.case.component, "hidden", told=_COMPILED.format(engine=runner.case.engine))
    paths = torch_outputs(question, (REFERENCE[floating], floating), inside=True)
    exact, plain = (load_arrays(paths[name].parent / "inside.npz") for name in (REFERENCE[floating], floating))
    found = first_wrong(load_arrays(Path(answer["inside"])), exact, plain, floating=floating)
    return found_in(found, runner.case.component)


def found_in(found: tuple[Spot | None, Sequence[Spot], Spot | None, int], component: str) -> Located:
    """Return what `first_wrong` found as it is reported."""
    spot, inputs, last, places = found
    if spot is None:
        return Located(component, "spread", places=places, told="Each of its modules agrees; errors add up.")
    return Located(component, "module", spot, tuple(inputs), last, places=places, told=_NO_FILES)


def first_wrong(
    obtained: Arrays, exact: Arrays, plain: Arrays, *, floating: str
) -> tuple[Spot | None, Sequence[Spot], Spot | None, int]:
    """Return the first module whose output is wrong, what it read, the last one before it that agrees, and how many.

    Args:
        obtained: What an engine's modules read and gave, in the order in which they finished (`Runner.inside`).
        exact: The same of torch in the reference type.
        plain: The same of torch in the type that is tested.
        floating: That type.
    """
    spots = dict(_spots(obtained, exact, plain, floating=floating))
    given = {name: spot for name, spot in spots.items() if READ not in name}
    last = None
    for path, spot in given.items():
        # What is wrong inside a module is wrong in all that hold it; a small one may be unlucky alone.
        around = [other for other in given.values() if spot.path.startswith(f"{other.path}.")]
        if spot.error > spot.limit and all(other.error > other.limit for other in around):
            read = [one for name, one in spots.items() if name.startswith(f"{path}{READ}")]
            return spot, read, last, len(given)
        if spot.error <= spot.limit:
            last = spot
    return None, (), last, len(given)


def _spots(obtained: Arrays, exact: Arrays, plain: Arrays, *, floating: str) -> Iterator[tuple[str, Spot]]:
    for name, array in obtained.items():
        if name not in exact or array.shape != exact[name].shape or not exact[name].any():
            continue
        yardstick = max(relative_l2(plain[name], exact[name]), HALF_UNIT[floating])
        error = math.inf if not_finite(array) else relative_l2(array, exact[name])
        path, _, number = name.partition(READ)
        yield (
            name,
            Spot(f"input {number}" if number else "", "", "", path.partition(CALL)[0], error, FACTOR * yardstick),
        )
