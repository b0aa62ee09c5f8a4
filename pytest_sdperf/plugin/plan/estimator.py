"""What the cases of a run cost: what earlier sessions measured, and where there is nothing, estimates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import CaseRunner, optimizations_of
from pytest_sdperf.cases.purposes import BUILD, COUNTS, RUN, SPEED
from pytest_sdperf.checks.pipelines.measure import MOST_WAITING, timing_plan
from pytest_sdperf.checks.references.of_case import missing_references
from pytest_sdperf.checks.references.which import subject_of
from pytest_sdperf.core import ladder
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.components import PIPELINE, component_dtype
from pytest_sdperf.core.contracts import Engine, Model
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import DeviceMissingError, SdperfError
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.plan import estimates
from pytest_sdperf.plugin.plan.builds import Place, PlannedStep, builds_of_run
from pytest_sdperf.plugin.plan.cost import CaseCost
from pytest_sdperf.plugin.plan.estimate import Estimate, all_of, estimate
from pytest_sdperf.plugin.plan.estimates import Speed, start_seconds
from pytest_sdperf.plugin.plan.known import RecordedSessions
from pytest_sdperf.plugin.plan.repeated import Repeated
from pytest_sdperf.plugin.plan.wanted import PlannedCase
from pytest_sdperf.plugin.session import Session


class Estimator:
    """Tells what cases cost. Nothing is built and no worker is started.

    Attributes:
        session: What the run is about.
        device: The device, if it is in this machine.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.device = _found(session)
        self._claimed: set[Place] = set()
        run = session.run
        settings, self._builds = run.settings, builds_of_run(session)
        self._builder = self._builds.builder
        slug = self.device.slug if self.device else settings.gpu
        self._speed = Speed.of(run.device_kind, slug, cores=session.cores)
        stored = session.sources.baseline if self.device else None
        self._known = RecordedSessions.of(stored, settings, slug=slug) if self.device else RecordedSessions()

    @property
    def memory_bytes(self) -> float | None:
        """Memory of the GPU, on its data sheet where it is not in this machine; None if nobody can tell."""
        settings = self.session.run.settings
        if not settings.on_gpu:
            return None
        if self.device is not None:
            found = self.device.machine.get("memory_bytes")
            return float(found) if isinstance(found, (int, float)) else None
        facts = estimates.card(settings.gpu)
        return facts.memory_gb * 1e9 if facts is not None else None

    def cost(self, wanted: PlannedCase) -> CaseCost:
        """Return what one case costs beyond what was asked for before."""
        case = wanted.case
        engine = self._engine(case)
        try:
            steps = list(self._builds.of(case, engine)) if case.component else []
            if COUNTS in wanted.tests:
                steps.append(self._builds.expectation(case))
        except SdperfError as error:
            return CaseCost(wanted, problem=str(error))
        mine = [step for step in steps if step.place not in self._claimed]
        self._claimed.update(step.place for step in mine)
        missing = [step for step in mine if step.entry is None]
        resumed = SPEED in wanted.tests and self._is_resumed(case)
        left = replace(wanted, tests=tuple(test for test in wanted.tests if test != SPEED)) if resumed else wanted
        return CaseCost(
            wanted,
            to_make=tuple(step.kind for step in missing),
            cached=sum(step.entry is not None for step in steps),
            build=all_of(step.seconds for step in missing),
            run=self._run(left, engine, steps),
            disk=all_of(step.size for step in missing),
            memory=self._memory(case, engine),
            out_of_memory=self._known.ran_out_of_memory(case),
            resumed=resumed,
        )

    def within(self, wanted: Iterable[PlannedCase], seconds: float) -> tuple[tuple[CaseCost, bool], ...]:
        """Return what the cases cost, and which of them fit one after the other; one that does not is passed over."""
        found = []
        for one in wanted:
            before = set(self._claimed)
            cost = self.cost(one)
            needed = cost.seconds.value if cost.seconds is not None else 0.0
            fits = needed <= seconds
            found.append((cost, fits))
            seconds -= needed if fits else 0.0
            self._claimed = self._claimed if fits else before
        return tuple(found)

    def _engine(self, case: Case) -> Engine | None:
        run = self.session.run
        return run.catalog.engines.get(run.request_of(case).engine) if case.engine else None

    def _model(self, case: Case) -> Model:
        return self.session.run.catalog.models.get(case.model)

    def _dtype(self, case: Case, engine: Engine) -> str:
        given = self._builder.external
        if given is not None and engine.consumes == "onnx":
            return given.dtype(self._model(case), case.component, case.optimization)
        return ladder.dtype_of(case.optimization, self.session.run.catalog.ladder)

    def _run(self, wanted: PlannedCase, engine: Engine | None, steps: Sequence[PlannedStep]) -> Estimate | None:
        if engine is None:
            return Estimate()
        parts = {
            SPEED: lambda: self._measuring(wanted.case, engine),
            RUN: lambda: self._calling(wanted.case, engine),
        }
        checks = self.session.run.catalog.checks.items()
        parts |= {name: partial(self._checking, check, wanted.case, engine, steps) for name, check in checks.items()}
        found = [parts[test]() for test in wanted.tests if test not in {COUNTS, BUILD}]
        return all_of([*found, self._compiling(wanted.case, engine)]) if found else Estimate()

    def _compiling(self, case: Case, engine: Engine) -> Estimate | None:
        """Return what a compiler takes, which works once for each case, and not where the cache has what it made."""
        place = ("compile", case)
        if not engine.compiles or place in self._claimed or self.session.has_outputs(case) or self._is_compiled(case):
            return Estimate()
        self._claimed.add(place)
        size = estimates.weights_bytes(case, self._model(case), dtype=self._dtype(case, engine))
        return None if size is None else estimate(estimates.compile_seconds(size))

    def _is_compiled(self, case: Case) -> bool:
        """Whether the cache has all that the engine compiles for a case, by whichever versions of its libraries."""
        runner = self._runner(case)
        try:
            keys = runner.compilation_keys() if runner is not None else ()
        except SdperfError:  # not built yet
            return False
        return bool(keys) and all(map(self._builds.inventory.begins, keys))

    def _measuring(self, case: Case, engine: Engine) -> Estimate | None:
        settings = self.session.run.settings
        plan = timing_plan(whole=case.component == PIPELINE, device_kind=self._speed.kind)
        seconds = partial(estimates.process_seconds, plan)
        one = self._known.process_seconds(case) or self._estimated(seconds, case, engine)
        if one is None:
            return None
        # They start side by side, as many as may wait.
        starts = math.ceil(settings.processes / MOST_WAITING) * start_seconds(case, engine)
        return replace(one, value=one.value * settings.processes + starts)

    def _calling(self, case: Case, engine: Engine) -> Estimate | None:
        one = self._known.first_seconds(case) or self._estimated(estimates.first_seconds, case, engine)
        return None if one is None else replace(one, value=one.value + start_seconds(case, engine))

    def _estimated(self, seconds: Callable[..., float], case: Case, engine: Engine) -> Estimate | None:
        dtype, model = self._dtype(case, engine), self._model(case)
        call_s = estimates.request_seconds(case, model, self._speed, dtype=dtype)
        size = estimates.weights_bytes(case, model, dtype=dtype)
        if call_s is None or size is None:
            return None
        return estimate(seconds(call_s, weights_bytes=size, speed=self._speed))

    def _repeated(self, case: Case, engine: Engine) -> Repeated:
        dtype = self._dtype(case, engine)
        return Repeated(case, self._model(case), self._speed, dtype, start_seconds(case, engine))

    def _checking(self, check: Check, case: Case, engine: Engine, steps: Sequence[PlannedStep]) -> Estimate | None:
        """Return what the processes of a registered check cost, and those of plain torch once for every engine."""
        run, seconds = self.session.run, 0.0
        for calls in check.calls(case, run.settings, self._speed.kind):
            called = replace(case, batch_size=calls.batch_size or case.batch_size)
            place = (check.name, *subject_of(called))
            if calls.by_torch and place in self._claimed:
                continue
            repeated = self._repeated(called, engine)
            if calls.by_torch:
                repeated = replace(repeated, dtype="float32", start_s=estimates.TORCH_START_S)
                self._claimed.add(place)
            process_s = repeated.seconds(calls.count)
            if process_s is None:
                return None
            seconds += process_s
        return all_of((estimate(seconds), self._references(case, engine, steps) if check.compares else Estimate()))

    def _references(self, case: Case, engine: Engine, steps: Sequence[PlannedStep]) -> Estimate | None:
        """Return what the references of a case cost that are not there yet; one process computes them."""
        model, dtype = self._model(case), self._dtype(case, engine)
        dtype = dtype if case.component == PIPELINE else component_dtype(model, case.component, dtype)
        names = exact_and_rough(dtype)
        whole = ("reference", *subject_of(case))
        missing = [name for name in self._missing(case, names, steps) if (*whole, name) not in self._claimed]
        self._claimed.update((*whole, name) for name in missing)
        call_s = estimates.request_seconds(case, model, self._speed, dtype="float32")
        if call_s is None or not missing:
            return Estimate() if call_s is not None else None
        # float64 is half as fast as float32 on a CPU.
        return estimate(estimates.TORCH_START_S + sum(call_s * (2 if name == "float64" else 1) for name in missing))

    def _missing(self, case: Case, names: tuple[str, str], steps: Sequence[PlannedStep]) -> tuple[str, ...]:
        runner = self._runner(case)
        if runner is None or any(step.entry is None for step in steps if step.kind == "weights"):
            return names
        try:
            return missing_references(runner, names)
        except SdperfError:
            return names

    def _is_resumed(self, case: Case) -> bool:
        """Whether an interrupted run measured the case, and this run takes that."""
        runner = self._runner(case) if self.session.run.settings.resume else None
        if runner is None:
            return False
        try:
            conditions = self.session.conditions(case, runner.builds())
        except SdperfError:
            return False
        return self.session.unfinished.find(case, conditions)[0] is not None

    def _runner(self, case: Case) -> CaseRunner | None:
        """Return a runner that is only asked; None where the device is not here."""
        run = self.session.run
        if self.device is None:
            return None
        bench = RunContext(
            settings=run.settings,
            catalog=run.catalog,
            device=self.device,
            probe=run.probe(),
            builder=self._builder,
            cache=self._builds.inventory,
            folder=Path(),
            say=lambda text: None,
        )
        return CaseRunner(case, run.request_of(case), bench)

    def _memory(self, case: Case, engine: Engine | None) -> Estimate | None:
        if engine is None:
            return None
        known = self._known.peak_bytes(case)
        if known is not None or self._speed.kind == "cpu":
            return known
        optimizations = optimizations_of(self._builder, case, self.session.run.catalog)
        fused = engine.consumes == "module" or "fmha" in optimizations
        dtype = self._dtype(case, engine)
        needed = estimates.gpu_bytes(case, self._model(case), dtype=dtype, fused=fused)
        return None if needed is None else estimate(needed)


def _found(session: Session) -> Device | None:
    try:
        return session.run.device()
    except DeviceMissingError:
        return None
