"""The one stateful object of a run: its context, its baseline, and what became of every case."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_sdperf.baselines import counts, published
from pytest_sdperf.baselines import stored as baselines
from pytest_sdperf.baselines.shipped import shipped_folder
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner, described
from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.fingerprint import library_versions
from pytest_sdperf.builds.onnx_folder import ONNX_REFERENCE, OnnxFolder
from pytest_sdperf.builds.processes.process import environment
from pytest_sdperf.cases.other_case import OtherCase
from pytest_sdperf.checks.judging.checks import judged
from pytest_sdperf.checks.judging.escalation import more_processes
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.calibrator import calibrate
from pytest_sdperf.checks.pipelines.measure import timing_plan
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.settings import EngineRequest
from pytest_sdperf.core.tolerances import Override
from pytest_sdperf.core.values import Build, Case, Measurement
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.check import CheckReport, Counted
from pytest_sdperf.core.values.outcomes import Verdict
from pytest_sdperf.plugin.run import Run
from pytest_sdperf.plugin.selftest.records import Archive, SelfTests
from pytest_sdperf.plugin.selftest.spread import with_spread
from pytest_sdperf.plugin.unfinished import Conditions, Unfinished, conditions_of

NAME = "sdperf-session"


def session_of(config: pytest.Config) -> Session:
    """Return the session that this config belongs to."""
    session = config.pluginmanager.get_plugin(NAME)
    assert isinstance(session, Session)
    return session


class Session:
    """What the fixtures of one run share. Everything expensive is made when it is first asked for.

    Attributes:
        run: What was asked, what is registered, and the device.
        cases: Number of tests that will measure: of many verdicts each may be wrong less often.
        collected: Cases of the tests that these options collect to measure, before anything is deselected.
        wrong_sides: Cases that are side A of an A/B and disagree with their reference, as far as this process knows.
    """

    def __init__(self, run: Run, *, say: Callable[[str], None]) -> None:
        self.run = run
        self.say = say
        self.cases = 1
        self.collected: tuple[Case, ...] = ()
        self.wrong_sides: list[Case] = []
        self._runners: dict[Case, CaseRunner] = {}
        self._calibrated: list[Calibration | None] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @functools.cached_property
    def cache(self) -> Cache:
        """Artifacts and references."""
        settings = self.run.settings
        return Cache(settings.cache_dir, size_bytes=settings.cache_size_bytes, say=self.say, built=self.run.built)

    @functools.cached_property
    def builder(self) -> Builder:
        """Builds components through the cache; needs no device."""
        return self.new_builder(self.cache, say=self.say)

    def new_builder(self, cache: Cache, *, say: Callable[[str], None]) -> Builder:
        """Return a builder of this run's models that works through some cache."""
        external, named = self.run.selector.external, self.run.settings.selection.onnx_reference
        reference = OnnxFolder(named, option=ONNX_REFERENCE) if named else None
        folder = external.folder if external else None
        return Builder(self.run.catalog, self.run.settings, cache, say=say, folder=folder, reference=reference)

    @property
    def cores(self) -> int:
        """Cores that this process may use."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @contextlib.contextmanager
    def sharing_cores(self, processes: int) -> Iterator[None]:
        """Give each of `processes` processes its share of the cores: thread pools that overlap spin on each other."""
        before, share = os.environ.get("OMP_NUM_THREADS", ""), max(1, self.cores // processes)
        threads = min(share, int(before)) if before.isdigit() else share
        with environment({"OMP_NUM_THREADS": str(threads)} if processes > 1 else {}):
            yield

    def build(self, case: Case, component: str) -> Build:
        """Return the build of one component of a case, from the cache if it is there; needs no device."""
        engine = self.run.catalog.engines.get(self.run.request_of(case).engine) if case.engine else None
        return self.builder.build(case, component, engine=engine, altered=self.run.settings.altered)

    @functools.cached_property
    def context(self) -> RunContext:
        """What every case of this run shares."""
        device = self.run.device()
        self._scratch = tempfile.TemporaryDirectory(prefix="sdperf-")
        return RunContext(
            settings=self.run.settings,
            catalog=self.run.catalog,
            device=device,
            probe=self.run.probe(),
            builder=self.builder,
            cache=self.cache,
            folder=Path(self._scratch.name),
            say=self.say,
            run=self.run.token,
        )

    @property
    def gpu(self) -> RunContext | None:
        """Where what needs no device may be computed, too; None without a GPU, and where it is not in this machine."""
        if self.run.device_kind != "cpu":
            with contextlib.suppress(SdperfError):
                return self.context
        return None

    def calibration(self, case: Case) -> Calibration | None:
        """Return what the device itself does, measured once; None where nothing can measure it, which is said once.

        Args:
            case: The interpreter of its engine is asked where the suite's own has no torch.
        """
        if not self._calibrated:
            python = None if importlib.util.find_spec("torch") else self.run.request_of(case).python
            self._calibrated.append(calibrate(self.context, python=python))
        return self._calibrated[0]

    @functools.cached_property
    def _own_pipeline(self) -> ExternalPipelineRunner | None:
        """What runs the pipeline that `--pipeline` named; None where pipelines are built from models."""
        factory = self.run.settings.selection.pipeline
        return described(factory, self.context) if factory else None

    def completed(self, case: Case) -> Case:
        """Return a case with what only the user's own pipeline can say; it is made for that, once.

        Raises:
            SdperfError: It cannot be made, or is not supported.
        """
        return self._own_pipeline.description.completed(case) if self._own_pipeline else case

    def runner(self, case: Case) -> CaseRunner:
        """Return the runner of a case; the same one for the same case."""
        case = self.completed(case)
        if case not in self._runners:
            self._runners[case] = self._new_runner(case, self.run.request_of(case))
        return self._runners[case]

    def other_runner(self, other: OtherCase) -> CaseRunner:
        """Return what executes the second side of an A/B."""
        return self._new_runner(other.case, other.request)

    def _new_runner(self, case: Case, request: EngineRequest) -> CaseRunner:
        usual = self._own_pipeline or CaseRunner(case, request, self.context, self.run.settings.altered)
        return dataclasses.replace(usual, case=case, request=request)

    @functools.cached_property
    def sources(self) -> BaselineFiles:
        """What judges the cases of this device: the project's own file, then those of registered folders.

        Raises:
            BaselineError: A file is there but cannot be trusted.
        """
        settings, registered = self.run.settings, self.run.catalog.baseline_folders
        reader = functools.partial(self.run.alteration.read_baseline, read=baselines.read)
        slug = self.run.device().slug
        return BaselineFiles.of_device(settings.baselines, registered, slug=slug, machine=self.machine, reader=reader)

    def standing(self, case: Case) -> Mapping[str, Mapping[str, str]]:
        """Return component -> optimization -> how it stands, of graphs taken as they are; empty for other cases."""
        return self.builder.exporter(case).standing(case)

    def known_counts(self, check: Check, case: Case) -> Counted | None:
        """Return what a baseline has of what a check counts of a case; None where it never has anything.

        Of one release the project's own file counts before what is shipped with the suite.

        Raises:
            BaselineError: A file is there but not valid.
        """
        key = check.key(case) if check.library else ""
        if not key:
            return None
        folders = (self.run.settings.baselines / check.name, shipped_folder(check.name))
        return counts.known(folders, self._counts_file(check), key)

    def judged(self, check: Check, finding: Any, case: Case, *, policy: Policy) -> tuple[CheckReport, Verdict]:
        """Judge what a check found. Raises as `checks.judging.checks.judged` does."""
        owner, stored = self.run.catalog.checks.owner(check.name).module, self.known_counts(check, case)
        return judged(check, finding, case, policy=policy, owner=owner, stored=stored)

    def _counts_file(self, check: Check) -> Path:
        version = library_versions(check.library)[check.library]
        return Path(check.name, counts.file_of(check.library, version))

    def check_files(self) -> None:
        """Read what this run will be judged by or shown beside: a damaged file ends it before its first test.

        Raises:
            BaselineError: A file is there but cannot be trusted.
        """
        _ = self.sources
        _ = self._self_tested
        for check in filter(lambda check: check.library, self.run.catalog.checks.items().values()):
            for path in counts.files_for(self.run.settings.baselines / self._counts_file(check)).values():
                counts.read(path)
        published.beside_baselines(self.run.settings.baselines)

    @functools.cached_property
    def unfinished(self) -> Unfinished:
        """What this run has measured so far, and what an interrupted one left."""
        return Unfinished(self.run.settings.state_dir / "unfinished" / self.run.device().slug)

    def conditions(self, case: Case, builds: Mapping[str, Build]) -> Conditions:
        """Return what has to be equal for an earlier measurement of a case to stand for a new one."""
        request, catalog = self.run.request_of(case), self.run.catalog
        return conditions_of(
            request,
            builds,
            engine=catalog.engines.get(request.engine),
            model=catalog.models.get(case.model),
            machine=self.machine,
            plan=timing_plan(whole=case.component == PIPELINE, device_kind=self.run.device().kind),
            settings=self.run.settings,
        )

    @property
    def machine(self) -> Mapping[str, Any]:
        """Machine keys of a baseline that is recorded now."""
        return {**self.run.device().machine, "pool": self.run.settings.pool}

    def judge(self, measurement: Measurement, *, policy: Policy) -> tuple[Verdict, ...]:
        """Judge a measurement against this device's baseline."""
        stored, differences = self.sources.stored(measurement.case, self.machine)
        return judge(measurement, stored, policy=policy, differences=differences)

    def more_processes(self, measurement: Measurement, *, policy: Policy) -> int:
        """Return how many more processes a measurement needs, while its verdict is open; 0 when it is settled."""
        stored, differences = self.sources.stored(measurement.case, self.machine)
        return more_processes(measurement, stored, policy=policy, differences=differences)

    def policy(self, case: Case, overrides: Iterable[Override] = (), *, pairs: bool = False) -> Policy:
        """Return how strictly this run judges a case, with tolerances of its own; `pairs` where it is timed in turns.

        On a GPU, self-tests of the machine may ask for a higher limit.
        """
        run, kind = self.run, self.run.device().kind
        policy = Policy.of(run.settings, device_kind=kind, overrides=overrides, cases=self.cases)
        pairs = pairs or run.settings.other is not None
        return with_spread(policy, case, self._self_tested.values(), pairs=pairs)

    @functools.cached_property
    def _self_tested(self) -> Mapping[str, SelfTests]:
        """What they were when this run began: read once, and not for every case."""
        return self.self_tests.cases()

    @functools.cached_property
    def self_tests(self) -> Archive:
        """What self-tests of this machine measured."""
        return Archive(self.run.settings, slug=self.run.device().slug, machine=self.machine)

    def close(self) -> None:
        """Remove the scratch folder."""
        if self._scratch is not None:
            self._scratch.cleanup()
