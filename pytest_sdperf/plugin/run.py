"""One pytest run of the suite: what was asked, what is registered, and the device once it is known."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_sdperf.builds.processes.process import run_task
from pytest_sdperf.builds.weights_identity import NONE
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.engine_requests import Profile
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.other_case import OtherCase, differing, other_case
from pytest_sdperf.cases.selector import Choice, Selector, missing_here
from pytest_sdperf.core.alteration import Alteration
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.device import Device, DeviceKind, DeviceProbe
from pytest_sdperf.core.errors import DeviceMissingError, EngineMissingError, OptionError, SdperfError, WorkerError
from pytest_sdperf.core.git import commit_of
from pytest_sdperf.core.interpreter import pip
from pytest_sdperf.core.machine.device_choice import DetectedDevice, describe, find_device
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.tolerances import ToleranceRule
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.artifact import Built
from pytest_sdperf.tasks import usable

NAME = "sdperf-run"
CHOSEN, TOKEN = "sdperf_gpu", "sdperf_run"  # keys of what pytest-xdist hands to its workers


@dataclass(eq=False)  # a plugin of pytest is itself and nothing else; before 9.1 pytest wants it hashable
class Run:
    """One pytest run, registered as a plugin under `NAME`.

    Attributes:
        settings: What the user said.
        catalog: What is registered.
        profiles: Profiles of the project, by name.
        device_kind: Kind of the device that was asked for; a good guess where the device is not in this machine.
        found: The device and its probe, once somebody needed them.
        rules: Tolerances of single cases.
        root: Folder of the project.
        refused: Why no test of this run can begin, found while tests were collected.
        token: Names this run, the same in every worker of pytest-xdist.
    """

    settings: Settings
    catalog: Catalog
    profiles: Mapping[str, Profile]
    device_kind: DeviceKind
    found: DetectedDevice | None = None
    rules: tuple[ToleranceRule, ...] = ()
    root: Path = Path()
    refused: SdperfError | None = None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _asked: set[tuple[object, ...]] = field(default_factory=set)
    _requests: dict[tuple[str, tuple[tuple[str, str], ...]], EngineRequest] = field(default_factory=dict)

    @functools.cached_property
    def selector(self) -> Selector:
        """What chooses the cases of a test."""
        return Selector(self.settings.selection, self.catalog, self.profiles, self.device_kind)

    @property
    def alteration(self) -> Alteration:
        """What alters this run on purpose; mostly nothing."""
        return self.catalog.alteration(self.settings.altered)

    def device(self) -> Device:
        """Return the device of this run, found once.

        Raises:
            DeviceMissingError: It is not in this machine.
            UnknownNameError: No device has such a name.
        """
        return self._as_read.device

    def probe(self) -> DeviceProbe:
        """Return the probe that found the device. Raises as `device` does."""
        return self._as_read.probe

    def _find(self) -> DetectedDevice:
        if self.found is None:
            self.found = find_device(self.settings.gpu, self.catalog)
        return self.found

    @functools.cached_property
    def _as_read(self) -> DetectedDevice:
        """The device and its probe, as the run is to see them."""
        found = self._find()
        return DetectedDevice(self.alteration.probe(found.probe), self.alteration.device(found.device))

    @functools.cached_property
    def commit(self) -> str:
        """Commit of the project; empty where there is no git."""
        return commit_of(self.root)

    @property
    def built(self) -> Built:
        """What is said of everything that this run builds."""
        try:
            host = find_device("cpu", self.catalog).device.slug
        except DeviceMissingError:
            host = ""
        return Built(self.token, host, self.commit)

    def choose(self, axes: Axes, marks: Marks, *, timed: bool = False) -> tuple[Choice, ...]:
        """Return the parameters of one test, as `Selector.choose` does, and keep their engines for `request_of`."""
        choices = self.selector.choose(axes, marks, timed=timed)
        for request in (choice.request for choice in choices):
            # One that is asked for by name stays so.
            if request and (request.by_name or (request.label, request.options) not in self._requests):
                self._requests[request.label, request.options] = request
        return choices

    def request_of(self, case: Case) -> EngineRequest:
        """Return the engine of a case with its interpreter and environment, as a test was given it.

        What no test was given, such as a reference, is an engine under its own name, in this interpreter.
        """
        usual = EngineRequest(case.engine, case.engine, case.engine_options, by_name=False)
        return self._requests.get((case.engine, case.engine_options), usual)

    def other_case(self, case: Case, *, timed: bool = True) -> OtherCase:
        """Return what an A/B compares a case with; `timed` where times are what is compared."""
        assert self.settings.other is not None
        return other_case(case, self.request_of(case), self.settings.other, self.selector, timed=timed)

    def check_other_side(self, cases: Iterable[Case]) -> None:
        """Refuse to begin where the second side of an A/B cannot run, or no case differs on it.

        Raises:
            EngineMissingError: With the command that installs it.
            OptionError: Both sides are the same.
        """
        for other in differing([self.other_case(case, timed=False) for case in cases if self.settings.other]):
            request = other.request
            reason = self._missing(request, other.case)
            if reason is not None:
                raise EngineMissingError(f"side B of the A/B cannot run engine {request.label!r}: {reason}")

    def check_engines(self, cases: Iterable[Case]) -> None:
        """Refuse to begin where an engine that was asked for by name cannot run.

        Raises:
            EngineMissingError: With the command that installs it.
            OptionError: A profile's interpreter cannot run in this process, as was asked for.
        """
        for case in cases:
            request = self.request_of(case) if case.engine else None
            if request is None:
                continue
            if self.settings.in_process and request.python is not None:
                raise OptionError(
                    f"profile {request.label!r} has an interpreter of its own, which cannot run inside pytest's "
                    f"process. Leave out sdperf_inprocess, or python in [tool.sdperf.engines.{request.label}], or "
                    "name another engine."
                )
            if not request.by_name:
                continue
            reason = self._missing(request, case)
            if reason is not None:
                raise EngineMissingError(f"engine {request.label!r} was asked for, but {reason}")

    def check_weights(self, executing: Sequence[str]) -> None:
        """Refuse to begin where graphs are built without weights, and a test executes them.

        Args:
            executing: Ids of the tests that execute what they build.

        Raises:
            OptionError: There is one.
        """
        if self.settings.selection.weights == NONE and executing:
            others = f" and {plural(len(executing) - 1, 'other test')}" if len(executing) > 1 else ""
            raise OptionError(
                f"--sdperf-weights=none builds graphs without weights, which nothing can execute, as {executing[0]}"
                f"{others} would. Name only tests that look at graphs, such as test_fusions.py, or leave "
                f"--sdperf-weights out."
            )

    def check_torch(self, building: Sequence[str]) -> None:
        """Refuse to begin where a test needs what is made with torch, and torch is not installed.

        Args:
            building: Ids of the tests that build or execute something.

        Raises:
            EngineMissingError: There is one. Graphs that are given need no torch.
        """
        if not building or self.settings.selection.onnx_dir is not None or importlib.util.find_spec("torch"):
            return
        others = f" and {plural(len(building) - 1, 'other test')}" if len(building) > 1 else ""
        rocm = " It leaves out torch and onnxruntime: take those of your ROCm installation."
        raise EngineMissingError(
            f"torch is not installed, and {building[0]}{others} cannot run without it: models are made and exported "
            f"with it. In a clone of pytest_sdperf type {pip()} install '.[{self.device_kind}]'."
            f"{rocm if self.device_kind == 'rocm' else ''}"
        )

    def _missing(self, request: EngineRequest, case: Case) -> str | None:
        """Say why an engine cannot run a case, here or in the interpreter of its profile; None if it can."""
        here = missing_here(self.catalog.engines.get(request.engine), request, self.device_kind)
        return here or self._missing_there(request, whole=case.component == PIPELINE)

    def _missing_there(self, request: EngineRequest, *, whole: bool) -> str | None:
        """Say what the interpreter of a profile lacks, by asking it; None if nothing, or if there is none."""
        target = (request.python, request.label, request.options, whole)
        if request.python is None or target in self._asked:
            return None
        self._asked.add(target)
        with tempfile.TemporaryDirectory(prefix="sdperf-") as folder:
            try:
                run_task(
                    f"{usable.__name__}:run",
                    usable.FindPackages(request.engine, dict(request.options), self.device_kind, whole),
                    out_dir=Path(folder),
                    timeout_s=self.settings.worker_timeout_s,
                    registrars=[self.catalog.engines.owner(request.engine)],
                    python=request.python,
                    env=request.env,
                )
            except WorkerError as error:
                if error.reason == "refused":
                    return str(error)
                last = error.tail.strip().splitlines()[-1:]
                return f"{request.python} cannot run a worker: {'; '.join([str(error), *last])}"
            except EngineMissingError as error:
                return str(error)
        return None

    def header(self) -> Iterator[str]:
        """Say on what this run measures, and where it keeps things."""
        where = describe(self._as_read.device) if self.found else "no device needed"
        yield f"sdperf: {where}, baselines {self.settings.baselines}, cache {self.settings.cache_dir}"
        if self.settings.altered:
            yield f"sdperf: {self.alteration.title}"


def run_of(config: pytest.Config) -> Run:
    """Return the run that this config belongs to."""
    run = config.pluginmanager.get_plugin(NAME)
    assert isinstance(run, Run)
    return run
