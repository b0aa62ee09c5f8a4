"""One pytest run of the suite: what was asked, what is registered, and the device once it is known."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_sdperf.catalog import Catalog
from pytest_sdperf.device import Device, DeviceKind
from pytest_sdperf.device_choice import choose_device, describe, named_kind
from pytest_sdperf.errors import DeviceMissingError, EngineMissingError, OptionError
from pytest_sdperf.options.engine_requests import check_profiles
from pytest_sdperf.options.flags import read_answers
from pytest_sdperf.options.profiles import Profile, read_project
from pytest_sdperf.options.reading import Reader
from pytest_sdperf.registration import fill_catalog
from pytest_sdperf.selection.selector import Selector, missing_here
from pytest_sdperf.settings import EngineRequest, Settings
from pytest_sdperf.values import Case

NAME = "sdperf-run"


@dataclass
class Run:
    """One pytest run, registered as a plugin under `NAME`.

    Attributes:
        settings: What the user said.
        catalog: What is registered.
        profiles: Profiles of the project, by name.
        device_kind: Kind of the device that was asked for; a good guess where the device is not in this machine.
        found: The device, once somebody needed it.
    """

    settings: Settings
    catalog: Catalog
    profiles: Mapping[str, Profile]
    device_kind: DeviceKind
    found: Device | None = None

    @property
    def selector(self) -> Selector:
        """What chooses the cases of a test."""
        return Selector(self.settings.selection, self.catalog, self.profiles, self.device_kind)

    def device(self) -> Device:
        """Return the device of this run, found once.

        Raises:
            DeviceMissingError: It is not in this machine.
            UnknownNameError: No device has such a name.
        """
        if self.found is None:
            self.found = find_device(self.settings.gpu, self.catalog)
        return self.found

    def request_of(self, case: Case) -> EngineRequest:
        """Return the engine of a case with its interpreter and environment."""
        named = any(request.label == case.engine and request.by_name for request in self.settings.selection.engines)
        profile = self.profiles.get(case.engine, Profile(case.engine, case.engine))
        return EngineRequest(
            label=case.engine,
            engine=profile.engine,
            options=case.engine_options,
            python=profile.python,
            env=profile.env,
            by_name=named,
        )

    def check_engines(self, cases: Iterable[Case]) -> None:
        """Refuse to begin where an engine that was asked for by name cannot run.

        Raises:
            EngineMissingError: With the command that installs it.
        """
        for case in cases:
            request = self.request_of(case) if case.engine else None
            if request is None or not request.by_name:
                continue
            reason = missing_here(self.catalog.engines.get(request.engine), request)
            if reason is not None:
                raise EngineMissingError(f"engine {request.label!r} was asked for, but {reason}")

    def header(self) -> Iterator[str]:
        """Say on what this run measures, and where it keeps things."""
        where = describe(self.found) if self.found else "no device needed"
        yield f"sdperf: {where}, baselines {self.settings.baselines}, cache {self.settings.cache_dir}"


def compose(config: pytest.Config) -> Run:
    """Read the command line, the configuration and the plug-ins.

    Raises:
        SdperfError: Anything that the user has to correct.
    """
    catalog = fill_catalog(config.pluginmanager)
    project = read_project(config.rootpath)
    check_profiles(catalog, project.profiles)
    answers = read_answers(config, project.options)
    gpu = answers["gpu"].text.strip() if "gpu" in answers else ""
    kind, found = asked_kind(gpu, catalog)
    reader = Reader(
        answers=answers,
        catalog=catalog,
        profiles=project.profiles,
        device_kind=kind,
        started_in=Path(config.invocation_params.dir),
        root=config.rootpath,
    )
    run = Run(reader.settings(), catalog, project.profiles, kind, found)
    _check_fit(run)
    return run


def run_of(config: pytest.Config) -> Run:
    """Return the run that this config belongs to."""
    run = config.pluginmanager.get_plugin(NAME)
    assert isinstance(run, Run)
    return run


def find_device(gpu: str, catalog: Catalog) -> Device:
    """Return the device that `gpu` names.

    Raises:
        DeviceMissingError: It is not in this machine.
        UnknownNameError: No device has such a name.
    """
    return choose_device(gpu, catalog.probes.items(), environ=os.environ)


def asked_kind(gpu: str, catalog: Catalog) -> tuple[DeviceKind, Device | None]:
    """Return the kind of the device that was asked for, and the device itself if it is a GPU of this machine.

    The tests of graphs run anywhere, also for a GPU that is elsewhere: its kind then follows from its name.

    Raises:
        UnknownNameError: No device has such a name.
    """
    if gpu.lower() in {"", "cpu"}:
        return "cpu", None
    try:
        found = find_device(gpu, catalog)
    except DeviceMissingError:
        return named_kind(gpu) or "cuda", None
    return found.kind, found


def _check_fit(run: Run) -> None:
    for request in run.settings.selection.engines:
        engine = run.catalog.engines.get(request.engine)
        if request.by_name and run.device_kind not in engine.device_kinds:
            kinds = " and ".join(engine.device_kinds)
            way = (
                "add --sdperf-gpu=auto"
                if run.device_kind == "cpu"
                else "leave --sdperf-gpu out, or name another engine"
            )
            raise OptionError(f"engine {request.label!r} runs on {kinds}, not on {run.device_kind}. To run it, {way}.")
