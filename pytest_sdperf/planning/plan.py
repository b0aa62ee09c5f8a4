"""The plan of a run: what each case costs, and all of them together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pytest_sdperf import agreement, ladder
from pytest_sdperf.building.builder import Builder
from pytest_sdperf.building.inventory import Inventory
from pytest_sdperf.components import PIPELINE
from pytest_sdperf.contracts import Engine, Model
from pytest_sdperf.device import Device
from pytest_sdperf.errors import DeviceMissingError, SdperfError
from pytest_sdperf.measure import MOST_WAITING, plan_of
from pytest_sdperf.options.weights_identity import NONE, RANDOM
from pytest_sdperf.planning import estimates
from pytest_sdperf.planning.builds import Builds, Place, Step
from pytest_sdperf.planning.estimates import Speed
from pytest_sdperf.planning.figures import Figure, estimate, total
from pytest_sdperf.planning.known import Known
from pytest_sdperf.planning.wanted import AGREEMENT, COUNTS, RUN, SPEED, Wanted
from pytest_sdperf.runner import CaseRunner, Workbench, rungs_of
from pytest_sdperf.session import Session
from pytest_sdperf.values import Case

_FUSED_ATTENTION = "fmha"


@dataclass(frozen=True)
class Cost:
    """What one case costs; of builds that several cases share, the first case has the cost.

    Attributes:
        wanted: The case.
        to_make: Kinds of the steps that have to be made.
        cached: Number of steps that the cache holds.
        build, run, disk: Seconds of building, seconds of everything else, bytes to be written; None if not known.
        memory: Peak memory of the device; None if not known.
        out_of_memory: Whether it ran out of memory last time.
        problem: Why it cannot be built; empty if nothing is known against it.
    """

    wanted: Wanted
    to_make: tuple[str, ...] = ()
    cached: int = 0
    build: Figure | None = None
    run: Figure | None = None
    disk: Figure | None = None
    memory: Figure | None = None
    out_of_memory: bool = False
    problem: str = ""

    @property
    def seconds(self) -> Figure | None:
        """Building and everything else."""
        return None if self.build is None or self.run is None else self.build + self.run


@dataclass
class Estimator:
    """Tells what cases cost.

    Attributes:
        session: The session; of it nothing is built and no worker is started.
        device: The device, if it is in this machine.
    """

    session: Session
    device: Device | None = None
    _claimed: set[Place] = field(default_factory=set)

    def __post_init__(self) -> None:
        run = self.session.run
        settings = run.settings
        self._inventory = Inventory(settings.cache_dir, size_bytes=settings.cache_size_bytes)
        self._inventory.seen = {}
        own = self.session.builder
        self._builder = Builder(
            run.catalog,
            settings,
            self._inventory,
            say=lambda text: None,
            folder=own.given.folder if own.given else None,
            reference=own.reference.folder if own.reference else None,
        )
        weights = settings.selection.weights
        blind = weights not in {RANDOM, NONE} and not Path(weights).is_dir()
        self._builds = Builds(self._builder, self._inventory, run.catalog, blind=blind)
        try:
            self.device = run.device()
        except DeviceMissingError:
            self.device = None
        slug = self.device.slug if self.device else settings.gpu
        self._speed = Speed.of(run.device_kind, slug, cores=self.session.cores)
        stored = self.session.baseline if self.device else None
        self._known = Known.of(stored, state_dir=settings.state_dir, slug=slug) if self.device else Known()

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

    def cost(self, wanted: Wanted) -> Cost:
        """Return what one case costs beyond what was asked for before."""
        case = wanted.case
        engine = self._engine(case)
        try:
            steps = list(self._builds.of(case, engine)) if case.component else []
            if COUNTS in wanted.tests:
                steps.append(self._builds.expectation(case))
        except SdperfError as error:
            return Cost(wanted, problem=str(error))
        mine = [step for step in steps if step.place not in self._claimed]
        self._claimed.update(step.place for step in mine)
        missing = [step for step in mine if step.entry is None]
        return Cost(
            wanted,
            to_make=tuple(step.kind for step in missing),
            cached=sum(step.entry is not None for step in steps),
            build=_sum(step.seconds for step in missing),
            run=self._run(wanted, engine, steps),
            disk=_sum(step.size for step in missing),
            memory=self._memory(case, engine),
            out_of_memory=self._known.ran_out_of_memory(case),
        )

    def within(self, wanted: Iterable[Wanted], seconds: float) -> tuple[tuple[Cost, bool], ...]:
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

    def _floating(self, case: Case, engine: Engine) -> str:
        given = self._builder.given
        if given is not None and engine.consumes == "onnx":
            return given.floating(self._model(case), case.component, case.optimization)
        return ladder.floating(case.optimization, self.session.run.catalog.ladder)

    def _run(self, wanted: Wanted, engine: Engine | None, steps: Sequence[Step]) -> Figure | None:
        if engine is None:
            return Figure()
        parts = {
            SPEED: lambda: self._measuring(wanted.case, engine),
            AGREEMENT: lambda: self._comparing(wanted.case, engine, steps),
            RUN: lambda: self._calling(wanted.case, engine),
        }
        return _sum(parts[test]() for test in wanted.tests if test in parts)

    def _measuring(self, case: Case, engine: Engine) -> Figure | None:
        settings = self.session.run.settings
        plan = plan_of(whole=case.component == PIPELINE, device_kind=self._speed.kind)
        one = self._known.process_seconds(case) or self._estimated(
            partial(estimates.process_seconds, plan), case, engine
        )
        if one is None:
            return None
        # They start side by side, as many as may wait.
        starts = math.ceil(settings.processes / MOST_WAITING) * _start_s(case, engine)
        return replace(one, value=one.value * settings.processes + starts)

    def _calling(self, case: Case, engine: Engine) -> Figure | None:
        one = self._known.first_seconds(case) or self._estimated(estimates.first_seconds, case, engine)
        return None if one is None else replace(one, value=one.value + _start_s(case, engine))

    def _estimated(self, seconds: Callable[..., float], case: Case, engine: Engine) -> Figure | None:
        floating, model = self._floating(case, engine), self._model(case)
        call_s = estimates.request_seconds(case, model, self._speed, floating=floating)
        size = estimates.weights_bytes(case, model, floating=floating)
        if call_s is None or size is None:
            return None
        return estimate(seconds(call_s, weights_bytes=size, speed=self._speed, compiles=engine.compiles))

    def _comparing(self, case: Case, engine: Engine, steps: Sequence[Step]) -> Figure | None:
        return _sum((self._calling(case, engine), self._references(case, engine, steps)))

    def _references(self, case: Case, engine: Engine, steps: Sequence[Step]) -> Figure | None:
        """Return what the references of a case cost that are not there yet; one process computes them."""
        floating = self._floating(case, engine)
        names = (agreement.REFERENCE[floating], floating)
        whole = ("reference", case.model, case.component, case.workload, case.weights)
        missing = [name for name in self._missing(case, names, steps) if (*whole, name) not in self._claimed]
        self._claimed.update((*whole, name) for name in missing)
        call_s = estimates.request_seconds(case, self._model(case), self._speed, floating="float32")
        if call_s is None or not missing:
            return Figure() if call_s is not None else None
        # float64 is half as fast as float32 on a CPU.
        return estimate(estimates.TORCH_START_S + sum(call_s * (2 if name == "float64" else 1) for name in missing))

    def _missing(self, case: Case, names: tuple[str, str], steps: Sequence[Step]) -> tuple[str, ...]:
        run = self.session.run
        if self.device is None or any(step.entry is None for step in steps if step.kind == "weights"):
            return names
        bench = Workbench(
            run.settings,
            run.catalog,
            self.device,
            run.probe(),
            self._builder,
            self._inventory,
            Path(),
            lambda text: None,
        )
        runner = CaseRunner(case, run.request_of(case), bench)
        try:
            return agreement.missing_references(runner, names) if agreement.by_torch(runner) else ()
        except SdperfError:
            return names

    def _memory(self, case: Case, engine: Engine | None) -> Figure | None:
        if engine is None:
            return None
        known = self._known.peak_bytes(case)
        if known is not None or self._speed.kind == "cpu":
            return known
        fused = engine.consumes == "module" or _FUSED_ATTENTION in rungs_of(
            self._builder, case, self.session.run.catalog
        )
        floating = self._floating(case, engine)
        needed = estimates.gpu_bytes(case, self._model(case), floating=floating, fused=fused)
        return None if needed is None else estimate(needed)


def _start_s(case: Case, engine: Engine) -> float:
    torch = engine.consumes == "module" or case.component == PIPELINE
    return estimates.TORCH_START_S if torch else estimates.START_S


def _sum(figures: Iterable[Figure | None]) -> Figure | None:
    known, unknown = total(figures)
    return None if unknown else known
