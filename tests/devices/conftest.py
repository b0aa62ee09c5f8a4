from __future__ import annotations

import sys

import pytest

from pytest_sdperf.devices.amdsmi import AmdsmiProbe
from pytest_sdperf.devices.nvml import NvmlProbe
from tests.devices.fake_amdsmi import FakeAmdsmi
from tests.devices.fake_pynvml import FakeNvml


@pytest.fixture(autouse=True)
def no_process_of_ours_computes(monkeypatch):
    """Other tests of this process may have used a real GPU."""
    monkeypatch.setattr("pytest_sdperf.devices._sharing.holds_open", lambda pids, device_file: False)


@pytest.fixture
def nvml(monkeypatch):
    """Return a function that puts these cards into the machine and returns a probe of it."""

    def install(*cards, environ=None, gpus=None, **library) -> NvmlProbe:
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*cards, **library))
        return NvmlProbe(environ or {}, gpus=gpus)

    return install


@pytest.fixture
def amdsmi(monkeypatch):
    """The same for AMD."""

    def install(*cards, environ=None, **library) -> AmdsmiProbe:
        monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdsmi(*cards, **library))
        return AmdsmiProbe(environ or {})

    return install
