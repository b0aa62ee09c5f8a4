"""Builds and references of a run, made before its first test: side by side, where measuring must be one by one.

What fails here fails again, with its whole text, at the test that needs it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass

import psutil

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.steps import shapes_only
from pytest_sdperf.builds.weights_identity import NONE
from pytest_sdperf.cases.purposes import COUNTS, SPEED
from pytest_sdperf.checks.references import of_case, which
from pytest_sdperf.core import progress
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.components import PIPELINE, parts_of
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.session import Session

# An export of a full-size model holds weights and graph several times over.
BYTES_PER_LANE = 24 * 2**30
THIN_BYTES_PER_LANE = 4 * 2**30
MOST_LANES = 4

_LONG = ("unet", PIPELINE)

Step = Callable[[], object]


@dataclass(frozen=True)
class BuildRequest:
    """What the tests of one case need.

    Attributes:
        case: The case.
        checks: What they find out: see `pytest_sdperf.cases.purposes`.
    """

    case: Case
    checks: frozenset[str] = frozenset()


def lanes(session: Session, needs: Sequence[BuildRequest]) -> int:
    """Return how many heavy steps may run at once on this machine."""
    models = {need.case.model for need in needs}
    thin = all(session.run.catalog.models.get(name).thin for name in models)
    thin = thin or session.run.settings.selection.weights == NONE
    room = psutil.virtual_memory().available // (THIN_BYTES_PER_LANE if thin else BYTES_PER_LANE)
    return max(1, min(session.cores, room, MOST_LANES))


def prepare(session: Session, needs: Sequence[BuildRequest], *, going_on: Callable[[], bool] = lambda: True) -> None:
    """Build what the cases need and compute their references, several components at once.

    Args:
        session: The session.
        needs: What the tests need.
        going_on: Asked before each step whether there is time for it.
    """
    if session.run.settings.in_process or not needs:
        return
    count = lanes(session, needs)
    builds, references = _builds(session, needs), _references(session, needs)
    beside = [*builds.items(), *_works(session, needs).items()]
    if session.run.device_kind == "cpu":
        beside += [*references.items(), *_ahead(session, needs).items()]
    # What takes longest comes first, so that no lane is left alone with it at the end.
    beside.sort(key=lambda entry: entry[0][1] not in _LONG)
    on_gpu = itertools.chain.from_iterable(references.values())
    later = _runs(session, needs) if session.run.device_kind == "cpu" else list(on_gpu)
    total, numbers = sum(len(steps) for _, steps in beside) + len(later), itertools.count(1)

    def run(step: Step) -> None:
        whole.at(next(numbers), total)
        if going_on():
            with contextlib.suppress(Exception):  # whatever it is, the test that needs this meets it again
                step()

    with (
        progress.step("building", frame=True) as whole,
        ThreadPoolExecutor(count, thread_name_prefix="sdperf-prepare") as pool,
    ):
        with session.sharing_cores(count):
            _side_by_side(pool, run, [steps for _, steps in beside])
        # With every core, as the measurement has them; on a GPU one after the other: two at once may not fit there
        # where each of them does.
        list(pool.map(run, later) if session.run.device_kind == "cpu" else map(run, later))


def _side_by_side(pool: ThreadPoolExecutor, run: Callable[[Step], None], chains: Iterable[Sequence[Step]]) -> None:
    """Run the first step of each chain, and once it is done the others of that chain."""

    def begin(steps: Sequence[Step]) -> Sequence[Step]:
        run(steps[0])
        return steps[1:]

    begun = [pool.submit(begin, steps) for steps in chains]
    wait([pool.submit(run, step) for first in as_completed(begun) for step in first.result()])


def _builds(session: Session, needs: Sequence[BuildRequest]) -> Mapping[tuple[str, ...], list[Step]]:
    """Return the steps of each component: the first one exports the graph which the others optimize."""
    found: dict[tuple[str, ...], dict[object, Step]] = {}
    for need in needs:
        case, model = need.case, session.run.catalog.models.get(need.case.model)
        names = parts_of(model, case.component)
        for name in filter(None, names):
            export = (case.exporter, str(case.opset), case.shapes, str(shapes_only(case.workload)))
            key = (case.optimization, case.fuser)
            found.setdefault((case.model, name, *export), {}).setdefault(
                key, functools.partial(session.build, case, name)
            )
        if COUNTS in need.checks:
            found.setdefault((case.model, "counts"), {})["counts"] = functools.partial(
                session.builder.expected_counts, case.model, case.component, case.optimization
            )
    return {place: list(steps.values()) for place, steps in found.items()}


def _works(session: Session, needs: Sequence[BuildRequest]) -> Mapping[tuple[str, ...], list[Step]]:
    """Return the steps that count the operations of what is measured on a GPU: after a measurement it would wait."""
    if session.run.device_kind == "cpu" or not session.run.settings.selection.has_module:
        return {}  # what has no floor needs no count
    found: dict[tuple[str, ...], list[Step]] = {}
    for need in filter(lambda need: SPEED in need.checks, needs):
        case, model = need.case, session.run.catalog.models.get(need.case.model)
        for name in filter(None, parts_of(model, case.component)):
            place = (case.model, "work", name, str(shapes_only(case.workload)))
            found.setdefault(place, [functools.partial(session.builder.work.of, case.model, name, case.workload)])
    return found


def _references(session: Session, needs: Sequence[BuildRequest]) -> Mapping[tuple[str, ...], list[Step]]:
    """Return one step per component and workload: it computes every dtype that some case needs."""
    wanted: dict[tuple[object, ...], tuple[CaseRunner, dict[str, None]]] = {}
    for need in needs:
        case = need.case
        try:
            runner = session.runner(case)
            names = [name for check in _checks(session, need).values() for name in check.references(runner)]
        except SdperfError:
            continue  # its test says why
        if not names or not which.by_torch(runner):
            continue  # one float32 graph, run when it is needed
        _, dtypes = wanted.setdefault(which.subject_of(case), (runner, {}))
        dtypes.update(dict.fromkeys(names))
    steps: dict[tuple[str, ...], list[Step]] = {}
    for runner, dtypes in wanted.values():
        place = (runner.case.model, runner.case.component)
        steps.setdefault(place, []).append(functools.partial(of_case.references, runner, tuple(dtypes)))
    return steps


def _ahead(session: Session, needs: Sequence[BuildRequest]) -> Mapping[tuple[str, ...], list[Step]]:
    """Return what registered checks compute ahead, per component."""
    wanted: dict[tuple[str, tuple[object, ...]], list[CaseRunner]] = {}
    checks = session.run.catalog.checks.items()
    for need in filter(lambda need: need.case.engine, needs):
        for name in _checks(session, need):
            with contextlib.suppress(SdperfError):  # its test says why
                wanted.setdefault((name, which.subject_of(need.case)), []).append(session.runner(need.case))
    steps: dict[tuple[str, ...], list[Step]] = {}
    for (name, _), runners in wanted.items():
        place = (runners[0].case.model, runners[0].case.component, name)
        steps.setdefault(place, []).append(functools.partial(checks[name].prepare, runners))
    return steps


def _checks(session: Session, need: BuildRequest) -> Mapping[str, Check]:
    """Return the registered checks that look at a case itself; of an A/B most look at side B alone."""
    checks = session.run.catalog.checks.items().items()
    alone = session.run.settings.other is None
    return {name: check for name, check in checks if name in need.checks and (alone or "A" in check.sides)}


def _runs(session: Session, needs: Sequence[BuildRequest]) -> list[Step]:
    """Return the one run that checks share which ask for the outputs of a case."""
    wanted = [need for need in needs if any(check.reads_outputs for check in _checks(session, need).values())]
    return [_run(session, need.case) for need in wanted]


def _run(session: Session, case: Case) -> Step:
    def step() -> None:
        if not which.is_comparable(session.runner(case)):
            return
        session.runner(case).run_ahead()

    return step
