"""A GPU that is not there: its readings are made up, and an engine runs graphs on the CPU in its place.

Only what a driver tells is fake; workers, measurement and verdicts are those of every run.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import LoadRequest, Runner
from pytest_sdperf.core.device import Device, DeviceProbe, Health
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine

# A byte for each call: the workers write it in the folder of their run, where the card's counter of energy reads it.
CALLS = Path("calls-of-the-card")
JOULES = 10.0  # that a call takes, however long it lasts: its processors are shared with everything else
CARD = Device("cuda", "NVIDIA H200", "h200", uuid="GPU-1", machine={"slug": "h200", "driver": "580.1"})


class FakeProbe(DeviceProbe):
    name = "fake"
    kind = "cuda"

    def __init__(self) -> None:
        self._readings = itertools.count(1)

    def find(self) -> tuple[Device, ...]:
        return (CARD,)

    def health(self, device: Device) -> Health:
        return Health(other_processes=0, memory_used_bytes=next(self._readings) * 2**20)

    def energy_j(self, device: Device) -> float:
        return JOULES * CALLS.stat().st_size if CALLS.exists() else 0.0


class StandIn(OrtCpuEngine):
    name = "stand-in"
    device_kinds = ("cuda",)

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        with super().load(dataclasses.replace(request, device_kind="cpu")) as runner:
            run = runner.run

            def counted() -> None:
                run()
                with CALLS.open("ab") as file:
                    file.write(b"1")

            runner.run = counted
            yield runner


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_device_probe(FakeProbe())
    catalog.add_engine(StandIn())
