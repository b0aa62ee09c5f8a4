"""One pytest run of the suite: what was asked, what is registered, and the device once it is known."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_sdperf.catalog import Catalog
from pytest_sdperf.device import Device, DeviceKind, DeviceProbe
from pytest_sdperf.device_choice import Found, choose_device, describe, named_kind
from pytest_sdperf.errors import DeviceMissingError, EngineMissingError, OptionError
from pytest_sdperf.options.engine_requests import check_profiles
from pytest_sdperf.options.flags import Answer, read_answers
from pytest_sdperf.options.profiles import Profile, read_project
from pytest_sdperf.options.reading import Reader
from pytest_sdperf.registration import fill_catalog
from pytest_sdperf.selection.selector import Selector, missing_here
from pytest_sdperf.settings import EngineRequest, Settings
from pytest_sdperf.values import Case

NAME = "sdperf-run"
CHOSEN = "sdperf_gpu"  # key of what pytest-xdist hands to its workers


@dataclass
class Run:
    """One pytest run, registered as a plugin under `NAME`.

    Attributes:
        settings: What the user said.
        catalog: What is registered.
        profiles: Profiles of the project, by name.
        device_kind: Kind of the device that was asked for; a good guess where the device is not in this machine.
        found: The device and its probe, once somebody needed them.
    """

    settings: Settings
    catalog: Catalog
    profiles: Mapping[str, Profile]
    device_kind: DeviceKind
    found: Found | None = None

    @functools.cached_property
    def selector(self) -> Selector:
        """What chooses the cases of a test."""
        return Selector(self.settings.selection, self.catalog, self.profiles, self.device_kind)

    def device(self) -> Device:
        """Return the device of this run, found once.

        Raises:
            DeviceMissingError: It is not in this machine.
            UnknownNameError: No device has such a name.
        """
        return self._find().device

    def probe(self) -> DeviceProbe:
        """Return the probe that found the device. Raises as `device` does."""
        return self._find().probe

    def _find(self) -> Found:
        if self.found is None:
            self.found = find_device(self.settings.gpu, self.catalog)
        return self.found

    def name_for_workers(self) -> str:
        """Return what names the chosen GPU to a worker of pytest-xdist, which must not choose again; empty for none."""
        if self.found is None or self.found.device.kind == "cpu":
            return ""
        return self.found.device.uuid or self.found.device.slug

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
            OptionError: A profile's interpreter cannot run in this process, as was asked for.
        """
        for case in cases:
            request = self.request_of(case) if case.engine else None
            if request is None:
                continue
            if self.settings.in_process and request.python is not None:
                raise OptionError(
                    f"profile {request.label!r} has an interpreter of its own, which cannot run inside pytest's "
                    f"process. Leave out --sdperf-inprocess, or python in [tool.sdperf.engines.{request.label}], or "
                    "name another engine."
                )
            if not request.by_name:
                continue
            reason = missing_here(self.catalog.engines.get(request.engine), request, self.device_kind)
            if reason is not None:
                raise EngineMissingError(f"engine {request.label!r} was asked for, but {reason}")

    def header(self) -> Iterator[str]:
        """Say on what this run measures, and where it keeps things."""
        where = describe(self.found.device) if self.found else "no device needed"
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
    chosen = getattr(config, "workerinput", {}).get(CHOSEN, "")
    if chosen:
        answers["gpu"] = Answer(chosen, "--sdperf-gpu")
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


def find_device(gpu: str, catalog: Catalog) -> Found:
    """Return the device that `gpu` names.

    Raises:
        DeviceMissingError: It is not in this machine.
        UnknownNameError: No device has such a name.
    """
    return choose_device(gpu, catalog.probes.items(), environ=os.environ)


def asked_kind(gpu: str, catalog: Catalog) -> tuple[DeviceKind, Found | None]:
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
    return found.device.kind, found


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
