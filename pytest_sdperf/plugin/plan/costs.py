"""What the cases of a run have to make, and how long that and their tests took when they were last recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.cases.purposes import BUILD, COUNTS, SPEED
from pytest_sdperf.core.components import parts_of
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.artifact import COMPILE
from pytest_sdperf.plugin.plan.builds import Place, PlannedStep, builds_of_run
from pytest_sdperf.plugin.plan.recorded import NOTHING, Recorded, Records, device_of
from pytest_sdperf.plugin.plan.wanted import PlannedCase
from pytest_sdperf.plugin.session import Session


@dataclass(frozen=True)
class CaseCost:
    """What one case costs; of builds that several cases share, the first case has the cost.

    Attributes:
        wanted: The case.
        steps: Of its builds.
        missing: Those of them that have to be made, and that no case before it makes.
        seconds: Of each missing step and of each test that runs something; None where nobody recorded them.
        recorded: When it was measured last.
        resumed: Whether an interrupted run measured it already.
        problem: Why it cannot be built; empty if nothing is known against it.
    """

    wanted: PlannedCase
    steps: tuple[PlannedStep, ...] = ()
    missing: tuple[PlannedStep, ...] = ()
    seconds: tuple[float | None, ...] = ()
    recorded: Recorded = NOTHING
    resumed: bool = False
    problem: str = ""

    @property
    def known_s(self) -> float:
        """Seconds that were recorded."""
        return sum(one for one in self.seconds if one is not None)

    @property
    def whole(self) -> bool:
        """Whether all of its seconds were recorded."""
        return None not in self.seconds


class Costs:
    """Tells what cases cost, each of them beyond those that were asked for before. Nothing is built or started.

    Attributes:
        device: The device, if it is in this machine.
    """

    def __init__(self, session: Session, records: Records) -> None:
        self.device = device_of(session.run)
        self._session, self._records = session, records
        self._builds = builds_of_run(session)
        self._counted: set[Place] = set()

    def of(self, wanted: PlannedCase) -> CaseCost:
        """Return what one case costs."""
        case = wanted.case
        try:
            steps = self._steps(wanted)
        except SdperfError as error:
            return CaseCost(wanted, seconds=(None,), problem=str(error))
        missing = tuple(step for step in steps if step.entry is None and step.place not in self._counted)
        self._counted.update(step.place for step in missing)
        recorded = self._records.last(case)
        resumed = SPEED in wanted.tests and self._is_resumed(case)
        building = [recorded.step_s(step.component, step.kind) for step in missing]
        free = {COUNTS, BUILD, SPEED} if resumed else {COUNTS, BUILD}
        running = [self._running_s(test, recorded) for test in wanted.tests if test not in free]
        return CaseCost(wanted, steps, missing, (*building, *running), recorded, resumed)

    def _running_s(self, test: str, recorded: Recorded) -> float | None:
        """Return what one test takes beside the builds; None where nobody recorded it."""
        process_s = recorded.process_s if test == SPEED else None
        return None if process_s is None else process_s * self._session.run.settings.processes

    def _steps(self, wanted: PlannedCase) -> tuple[PlannedStep, ...]:
        case, run = wanted.case, self._session.run
        engine = run.catalog.engines.get(run.request_of(case).engine) if case.engine else None
        steps = list(self._builds.of(case, engine)) if case.component else []
        if COUNTS in wanted.tests:
            steps.append(self._builds.expectation(case))
        if engine is not None and engine.compiles and not self._is_compiled(case):
            names = parts_of(run.catalog.models.get(case.model), case.component)
            steps += [PlannedStep(COMPILE, (COMPILE, case, name), component=name) for name in names]
        return tuple(steps)

    def _is_compiled(self, case: Case) -> bool:
        """Whether the cache has all that the engine compiles for a case, by whichever versions of its libraries."""
        runner = self._runner(case)
        try:
            keys = runner.compilation_keys() if runner is not None else ()
        except SdperfError:  # not built yet
            return False
        return bool(keys) and all(map(self._builds.inventory.begins, keys))

    def _is_resumed(self, case: Case) -> bool:
        """Whether an interrupted run measured the case, and this run takes that."""
        runner = self._runner(case) if self._session.run.settings.resume else None
        if runner is None:
            return False
        try:
            conditions = self._session.conditions(case, runner.builds())
        except SdperfError:
            return False
        return self._session.unfinished.find(case, conditions)[0] is not None

    def _runner(self, case: Case) -> CaseRunner | None:
        """Return a runner that is only asked; None where the device is not here."""
        run = self._session.run
        if self.device is None:
            return None
        context = RunContext(
            settings=run.settings,
            catalog=run.catalog,
            device=self.device,
            probe=run.probe(),
            builder=self._builds.builder,
            cache=self._builds.inventory,
            folder=Path(),
            say=lambda text: None,
        )
        return CaseRunner(case, run.request_of(case), context)
