"""Look inside an engine that loads a graph: the graph tells its inner values, and each is compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.locate import reproductions, rewriting
from pytest_sdperf.checks.locate.inside import Inside, inside, own_task
from pytest_sdperf.checks.locate.target import SearchTarget, redrawn_runner, torch_device, torch_outputs
from pytest_sdperf.checks.references import float32_graph
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.core import ladder, progress
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.machine import host_memory
from pytest_sdperf.core.reference_error import REFERENCE, exact_and_rough
from pytest_sdperf.core.values import Build, Case
from pytest_sdperf.core.values.case import EXTERNAL
from pytest_sdperf.core.values.located import Located, Location
from pytest_sdperf.core.values.recipe import SessionRecipe
from pytest_sdperf.tasks._execution import ShowingFiles
from pytest_sdperf.tasks.trace import FindNode, NodeFound, Reveal

_COPIES = 8  # of every inner value: in three precisions, in other orders of axes, and while one is computed
_OF_PIXELS = ("unet", "vae_decoder", "vae_encoder")  # what becomes smaller with the picture
_GRID = 64  # pixels of a picture that every UNet here can halve three times
_SHARES = (1, 8)  # every inner value is asked for, or every eighth


def search(target: SearchTarget, *, folder: Path, real_weights: bool) -> Located:
    """Find the first node that is wrong.

    Args:
        target: A component whose engine loads a graph.
        folder: Where files that show the fault are put.
        real_weights: Whether they may hold the weights of the case.
    """
    runner, dtype = target.runner, target.runner.dtype
    build = runner.build(runner.case.component)
    expected = torch_outputs(target, exact_and_rough(dtype), inside=True) if by_torch(runner) else {}
    hidden, vanished = Located(runner.case.component, "hidden"), {}
    for share in _SHARES:
        seen = inside(runner, target.inputs, build, Reveal(build.path, share))
        if too_large := _too_large(seen.obtained, runner.case):
            return dataclasses.replace(hidden, told=too_large)
        references = _references(runner, dtype)
        found = _compared(target, build, seen, references, expected, dtype=dtype)
        if found.located.kind == "export" and expected:
            found = _by_modules(target, build, seen, expected, dtype=dtype, export=found.located)
            references = None
        if found.located.kind != "vanished":
            break
        vanished = {"values": seen.values, "share": share}
    located = found.located
    if vanished:
        remark = rewriting.told(target, expected, dtype, **vanished)
        fewer = "" if located.kind == "vanished" else "What follows was seen with fewer of them."
        located = dataclasses.replace(located, told=" ".join(filter(None, [remark, fewer, located.told])))
    files = found.files
    if (located.kind == "export" or references is not None) and not (real_weights or reproductions.seeded(runner.case)):
        files = (*_with_random_weights(target, located, seen.session, dtype=dtype), *files)
    return reproductions.keep(target, located, files, folder=folder, real_weights=real_weights)


def _too_large(obtained: Path, case: Case) -> str:
    """Say that the values do not fit into memory together with those that they are compared with; empty if they do."""
    needed, free = _COPIES * obtained.stat().st_size, host_memory.available_bytes()
    if free is None or needed <= free:
        return ""
    told = f"Looking inside would take about {needed / 2**30:.0f} GiB of memory, and {free / 2**30:.0f} GiB are free."
    smaller = [side // 2 // _GRID * _GRID for side in (case.width, case.height)]
    if case.component not in _OF_PIXELS or min(smaller) < _GRID:
        return f"{told} Look at it where more is free."
    return (
        f"{told} Look at a smaller picture, --sdperf-resolution={'x'.join(map(str, smaller))}, or where more is free."
    )


def _references(runner: CaseRunner, dtype: str) -> tuple[Path, Path] | None:
    """Return a float32 graph in which nothing is fused, and the same in the type that is tested; None without one."""
    if not by_torch(runner):
        exact, plain = (float32_graph.build_of(runner, runner.case.component, one) for one in ("float32", dtype))
        return exact.path, plain.path
    return _exported(runner, dtype)


def _exported(runner: CaseRunner, dtype: str) -> tuple[Path, Path] | None:
    """Return the graph that the build of a case was made of, and the same in the type that is tested; None without."""
    builder, case, component = runner.context.builder, runner.case, runner.case.component
    as_is = dataclasses.replace(case, optimization=ladder.AS_IS)
    if case == as_is or builder.exporter(case).dtype(as_is, component) != "float32":
        return None  # nothing stands before it

    def unfused(optimization: str) -> Path:
        unfused = dataclasses.replace(case, optimization=optimization, fuser="native")
        return builder.build(unfused, component, fused=False).path

    return unfused(ladder.BASE), unfused(ladder.HALF if dtype == "float16" else ladder.BASE)


def _with_random_weights(
    target: SearchTarget, found: Located, session: SessionRecipe | None, *, dtype: str
) -> Sequence[ShowingFiles]:
    """Return files that show a wrong graph with random weights, if there are any."""
    try:
        with progress.step("looking again with random weights"):
            return _redrawn(target, found, session, dtype=dtype)
    except Exception as error:  # noqa: BLE001 - whatever it is, what was found must stand
        lines = str(error).strip().splitlines()
        target.runner.context.say(f"looking again with random weights failed: {lines[0] if lines else error}")
        return []


def _redrawn(
    target: SearchTarget, found: Located, session: SessionRecipe | None, *, dtype: str
) -> Sequence[ShowingFiles]:
    """Return files that show a wrong graph with random weights; none where these do not lead to the same node.

    A fuser makes a wrong graph of an export, whatever its weights are. So the export is written again with random
    numbers, fused again, and compared again with the definitions of the export: no engine and no torch module is asked.
    What an exporter makes wrong is exported again, of a module with random weights, and compared with that module.
    """
    exports = found.kind == "export"
    if session is None or found.kind not in ("export", "graph"):
        return []  # nobody knows how the files would be run, or it is no fault of a graph
    if exports and target.runner.case.exporter == EXTERNAL:
        return []  # nobody can export it again
    runner = redrawn_runner(target.runner, modules=exports)
    again = dataclasses.replace(target, runner=runner)
    expected = torch_outputs(again, exact_and_rough(dtype), inside=True) if exports else {}
    references = () if exports else _exported(runner, dtype)
    if references is None:
        return []
    build = runner.build(runner.case.component)
    seen = _find(again, build, None, session, expected, dtype=dtype, graphs=references)
    location = seen.located.location
    if (
        location is None
        or found.location is None
        or (location.op, location.path) != (found.location.op, found.location.path)
    ):
        return []
    return [dataclasses.replace(one, weights="random") for one in seen.files]


def _compared(
    target: SearchTarget,
    build: Build,
    seen: Inside,
    references: tuple[Path, Path] | None,
    expected: Mapping[str, Path],
    *,
    dtype: str,
) -> NodeFound:
    if references is None:
        return NodeFound(Located(target.runner.case.component, "export"))
    return _find(target, build, seen.obtained, seen.session, expected, dtype=dtype, graphs=references)


def _by_modules(
    target: SearchTarget,
    build: Build,
    seen: Inside,
    expected: Mapping[str, Path],
    *,
    dtype: str,
    export: Located,
) -> NodeFound:
    """Compare with what torch's modules give: the graph that was exported is wrong itself, or nobody has it."""
    found = _find(target, build, seen.obtained, seen.session, expected, dtype=dtype, graphs=())
    located = found.located
    if export.location is None or located.location is None:
        return found
    kind = "export" if located.kind == "graph" else located.kind
    told = dataclasses.replace(located, kind=kind).saying(_wrong_export(export.location))
    return dataclasses.replace(found, located=told)


def _wrong_export(location: Location) -> str:
    return (
        f"The exported graph is wrong before anything is optimized: its {location.value} has an error "
        f"{location.error:.2e}, and at most {location.limit:.2e} passes."
    )


def _find(
    target: SearchTarget,
    build: Build,
    obtained: Path | None,
    session: SessionRecipe | None,
    expected: Mapping[str, Path],
    *,
    dtype: str,
    graphs: tuple[Path, ...],
) -> NodeFound:
    runner = target.runner
    inputs = runner.context.new_folder("inputs") / "inputs.npz"
    request = FindNode(
        component=runner.case.component,
        graph=build.path,
        graphs=graphs,
        inputs=save_arrays(inputs, target.inputs),
        obtained=obtained,
        expected=expected.get(REFERENCE[dtype]),
        rough=expected.get(dtype),
        dtype=dtype,
        device=torch_device(runner),
        session=session,
    )
    return own_task(runner, "find", request, NodeFound)
