"""Look inside an engine that loads a torch module: its sub-modules are asked what they read and gave."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.checks.agreement.tensors import reference_error_of, relative_l2
from pytest_sdperf.checks.locate import reproductions
from pytest_sdperf.checks.locate.target import SearchTarget, torch_outputs
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.core.files.arrays import at_most_two_values, load_arrays
from pytest_sdperf.core.reference_error import exact_and_rough, limit
from pytest_sdperf.core.values.located import Located, Location
from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.tasks._execution import Ran, RunCase
from pytest_sdperf.tasks.cut import CutModule, ModuleCut
from pytest_sdperf.tracing.insides import CALL, FILE, READ, plain_not_finite

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

_COMPILED = (
    "Nobody can look inside what {engine} compiled as one. The same module without it, on these inputs, is the "
    "limit and right: what the compiler makes of it is to blame."
)
_AROUND = (
    "Each of its modules gives the right thing, the outermost one too: what is wrong is made around them, by what the "
    "engine does with what they read or gave."
)
_NOT_COMPARED = (
    "Where it goes wrong cannot be told: what its outermost module gave was compared with nothing, because plain torch "
    "has nothing like it, or nothing finite."
)
_UNCUT = "No files that show it were made: {why}, so it cannot be built without the code around it."
_OTHERS = "Its weights are not those of the reference: {names} ({count} in all)."
_SHOWN = 3
_UNTOLD = "No files that show it were made: the engine {engine} does not tell how it calls a module (`Runner.recipe`)."


@dataclasses.dataclass(frozen=True)
class FirstWrong:
    """What a comparison of modules found.

    Attributes:
        location: The first module whose output is wrong; None where all of them agree.
        calls: Paths of that module and of those around it, the innermost first, each with the number of its call.
        inputs: What the module read.
        last: The last module before it that agrees.
        places: How many were compared.
        whole: Whether what the outermost module gave was.
    """

    location: Location | None = None
    calls: tuple[tuple[str, int], ...] = ()
    inputs: tuple[Location, ...] = ()
    last: Location | None = None
    places: int = 0
    whole: bool = True


def search(target: SearchTarget, *, folder: Path, real_weights: bool) -> Located:
    """Find the first sub-module that is wrong.

    Args:
        target: A component whose engine loads a torch module.
        folder: Where files that show the fault are put.
        real_weights: Whether they may hold the weights of the case.
    """
    runner, dtype = target.runner, target.runner.dtype
    seen = runner.task("run", RunCase(runner.execution(target.inputs), inside=True), Ran)
    found, component = FirstWrong(), runner.case.component
    of_torch = list(torch_outputs(target, exact_and_rough(dtype), inside=True).values())
    if (where := plain_not_finite(*of_torch)) is not None:
        return Located(component, "plain", location=where)
    if seen.inside:
        exact, plain = (load_arrays(path.parent / FILE) for path in of_torch)
        found = first_wrong(load_arrays(Path(seen.inside)), exact, plain, dtype=dtype)
        located = found_in(found, component)
        if found.location is None:
            return located
    else:
        located = Located(component, "hidden", told=_COMPILED.format(engine=runner.case.engine))
    if seen.module is None:
        return located.saying(_UNTOLD.format(engine=runner.case.engine))
    cut = _cut(target, found.calls, seen.module, dtype=dtype)
    if cut.why:
        return located.saying(_UNCUT.format(why=cut.why))
    if cut.others:
        located = located.saying(_OTHERS.format(names=", ".join(cut.others[:_SHOWN]), count=len(cut.others)))
    return reproductions.keep(target, located, cut.files, folder=folder, real_weights=real_weights)


def _cut(target: SearchTarget, calls: Sequence[tuple[str, int]], recipe: ModuleRecipe, *, dtype: str) -> ModuleCut:
    """Have a module cut out in a process of plain torch: the first of some that can stand by itself."""
    runner, plain = target.runner, plain_runner(target.runner)
    component = runner.case.component
    request = CutModule(
        plain.execution(target.inputs),
        weights=runner.build(component).path,
        right_weights=plain.build(component).path,
        dtype=dtype,
        modules=tuple(calls),
        recipe=recipe,
    )
    return plain.task("run", request, ModuleCut, module="cut")


def found_in(found: FirstWrong, component: str) -> Located:
    """Return what `first_wrong` found as it is reported."""
    if found.location is None:
        return Located(component, "hidden", places=found.places, told=_AROUND if found.whole else _NOT_COMPARED)
    return Located(component, "module", found.location, found.inputs, found.last, places=found.places)


def first_wrong(obtained: Arrays, exact: Arrays, plain: Arrays, *, dtype: str) -> FirstWrong:
    """Return the first module whose output is wrong.

    Where what it reads is wrong already, though no module before it gave anything wrong, the code of a module around
    it made that: then the innermost one is returned whose inputs agree.

    Args:
        obtained: What an engine's modules read and gave, in the order in which they finished (`Runner.inside`).
        exact: The same of torch in the reference type.
        plain: The same of torch in the type that is tested.
        dtype: That type.
    """
    locations = dict(_locations(obtained, exact, plain, dtype=dtype))
    given = {name: location for name, location in locations.items() if READ not in name}
    last, outermost = None, next((name for name in reversed(list(obtained)) if READ not in name), "")
    for name, location in given.items():
        # What is wrong inside a module is wrong in all that hold it; a small one may be unlucky alone.
        around = {path: other for path, other in given.items() if location.path.startswith(f"{other.path}.")}
        if _beyond(location) and all(map(_beyond, around.values())):
            chain = [name, *sorted(around, key=lambda path: -len(path.partition(CALL)[0]))]
            reads = {
                one: [location for path, location in locations.items() if path.startswith(f"{one}{READ}")]
                for one in chain
            }
            right = [one for one in chain if reads[one] and not any(map(_beyond, reads[one]))]
            first = right[0] if right else name
            calls = tuple(_call(one) for one in chain[chain.index(first) :])
            return FirstWrong(given[first], calls, tuple(reads[first]), last, len(given))
        if not _beyond(location):
            last = location
    return FirstWrong(last=last, places=len(given), whole=outermost in given)


def _beyond(location: Location) -> bool:
    return location.error > location.limit


def _call(name: str) -> tuple[str, int]:
    path, _, number = name.partition(CALL)
    return path, int(number or 1)


def _locations(obtained: Arrays, exact: Arrays, plain: Arrays, *, dtype: str) -> Iterator[tuple[str, Location]]:
    for name, array in obtained.items():
        if name not in exact or array.shape != exact[name].shape or not exact[name].any():
            continue
        path, _, number = name.partition(READ)
        if number and at_most_two_values(exact[name]):
            continue  # a mask: what stands for minus infinity differs with the type
        largest = limit(reference_error_of([plain[name]], exact[name], dtype=dtype))
        if not math.isfinite(largest):
            continue  # plain torch is not finite there: it says nothing about others
        value, error = f"input {number}" if number else "", relative_l2(array, exact[name])
        yield name, Location(value, "", "", path.partition(CALL)[0], error, largest)
