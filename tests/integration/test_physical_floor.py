"""A card that is pretended at the border of its driver, and engines that are faster than any card: a user sees why."""

from __future__ import annotations

import pytest
from user_project import RECORD

CONFTEST = '''
    import time
    from contextlib import contextmanager

    import numpy as np

    from pytest_sdperf.core.contracts import Engine, Runner
    from pytest_sdperf.core.device import Device, DeviceProbe, Health

    MB = 2**20


    class Driver(DeviceProbe):
        """The driver of a T4, whose memory fills while somebody looks at it."""

        name, kind = "pretended", "cuda"
        used = 0

        def find(self):
            return (Device("cuda", "Tesla T4", "t4", uuid="GPU-1", machine={"slug": "t4"}),)

        def health(self, device):
            return Health(sm_clock_mhz=1590, temperature_c=61.0, other_processes=0)

        def memory_used_bytes(self, device):
            self.used += 100 * MB
            return self.used


    class Waits(Runner):
        def __init__(self, seconds):
            self._seconds = seconds

        def bind(self, inputs):
            self._answer = inputs["sample"] + sum(float(np.sum(array)) for array in inputs.values())

        def run(self):
            if self._seconds:  # sleeping for no time takes 60 microseconds
                time.sleep(self._seconds)

        def synchronize(self):
            return

        def fetch(self):
            return {"out_sample": self._answer}


    class Waiting(Engine):
        consumes, device_kinds = "module", ("cuda",)

        def __init__(self, name, seconds):
            self.name, self._seconds = name, seconds

        def default_optimizations(self, device_kind):
            return ("fp16",)

        def versions(self):
            return {}

        @contextmanager
        def load(self, request):
            yield Waits(self._seconds)


    def pytest_sdperf_register(catalog):
        catalog.add_device_probe(Driver())
        catalog.add_engine(Waiting("steady", 0.002))
        catalog.add_engine(Waiting("cached", 0.0))
'''
TESTS = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], optimizations=["fp16"])
    def test_speed(runner, bench):
        bench(runner)
"""


@pytest.fixture
def card(user):
    user.project(conftest=CONFTEST, tests=TESTS, options={"model": "sd15-thin", "gpu": "t4", "engine": "steady,cached"})
    return user


@pytest.mark.slow
def test_a_time_below_the_floor_is_an_error_and_is_not_accepted_and_the_state_of_the_card_is_told(card):
    result = card.run(*RECORD, "-v")
    steady, cached = card.results()["reports"]
    floor = steady["measurement"]["floor"]
    assert (floor["basis"], floor["flops"]) == ("data sheet", cached["measurement"]["floor"]["flops"])
    assert steady["measurement"]["samples"][0]["iterations_s"][0] > floor["bound_s"] > 0
    assert floor["bound_s"] == pytest.approx(floor["flops"] / 65e12)
    assert [(one["verdicts"][0]["outcome"], one["verdicts"][0]["code"]) for one in (steady, cached)] == [
        ("NEW", "no-baseline"),
        ("INVALID", "below-floor"),
    ]
    assert result.ret == 10
    assert list(card.stored_cases()) == [key for key in card.stored_cases() if "engine=steady" in key]
    text = " ".join(" ".join(result.outlines).split())
    assert "floor TFLOP floor latency reached sd15-thin unet fp16 steady 0.00381 " in text
    assert "at the rates of its data sheet and all else cost nothing; reached: the share of that speed" in text
    assert "memory alloc 1st alloc 2nd host 1st host 2nd sd15-thin unet fp16 steady - - " in text
    # The state of the card and each kind of memory are in the results.
    state = {"sm_clock_mhz": 1590, "temperature_c": 61.0, "other_processes": 0, "counter_unit": "s"}
    assert steady["measurement"]["readings"] == dict.fromkeys(("before", "during", "after"), state)
    (sample,) = steady["measurement"]["samples"]
    assert sample["memory_source"] == "device"
    assert set(sample["peaks_bytes"]) == {"device", "host"}
    assert all(set(runs) == {"first_run", "second_run"} for runs in sample["peaks_bytes"].values())
