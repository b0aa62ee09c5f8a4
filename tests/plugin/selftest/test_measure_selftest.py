"""Fresh processes of a self-test: what each is asked for, and what is made of its answer."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from door_toys import ToyProbe
from sample_values import case, execution, sample_with

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import OutOfMemoryError
from pytest_sdperf.core.values import Failure, to_json
from pytest_sdperf.plugin.selftest.measuring import measure_selftest
from pytest_sdperf.tasks.slowed import MeasuredSlowed, Slowed

CPU = Device("cpu", "A CPU", "cpu-a-2c")
GPU = Device("cuda", "A GPU", "gpu-a")


class Processes:
    """A runner whose processes take 10 ms for a call and do as their plan says, or as `answer` does."""

    is_pipeline = False

    def __init__(self, device, answer=None) -> None:
        self.case, self.request = case(), SimpleNamespace(python=None)
        self.context = SimpleNamespace(device=device, probe=ToyProbe(device), catalog=Catalog())
        self.plans, self._answer = [], answer

    def builds(self):
        return {"unet": SimpleNamespace(kind="module", size_bytes=69, steps=())}

    def execution(self, *, builds):
        return execution("unet")

    @contextlib.contextmanager
    def workers(self, function, request, *, count, module):
        assert (function, count, module) == ("measure", 4, "slowed")
        yield [self._worker] * count

    def _worker(self, *, arguments, on_event):
        self.plans.append(arguments.slowdowns)
        if self._answer is not None:
            return self._answer(len(self.plans), arguments.slowdowns)
        return answer_of(arguments.slowdowns)


def answer_of(slowdowns, *, ms=10.0):
    slowed = tuple(Slowed(one, one + 1e-4, ms / 1e3 * (1 + one), None) for one in slowdowns if one)
    return to_json(MeasuredSlowed(sample_with(ms), slowed))


def measured(tested, *, most, first=0):
    asked = []

    def going_on(count, slowest_s):
        asked.append(count)
        return count < most

    found = list(measure_selftest(tested, first=first, going_on=going_on))
    return SimpleNamespace(all=found, last=found[-1] if found else None, asked=asked)


def test_on_a_gpu_each_process_tells_of_every_slowdown():
    tested = Processes(GPU)
    found = measured(tested, most=8).last
    assert tested.plans[:2] == [(0.0, 0.02, 0.03, 0.05, 0.1), (0.02, 0.03, 0.05, 0.1, 0.0)]
    assert found.medians_s["0"] == (0.01,) * 8
    assert found.medians_s["0.05"] == pytest.approx((0.0105,) * 8)
    assert found.obtained["0.1"] == pytest.approx((0.1001,) * 8)
    assert len(found.measurement.samples) == 8


def test_on_a_cpu_the_slowdowns_are_larger():
    found = measured(Processes(CPU), most=8).last
    assert found.medians_s["0.5"] == pytest.approx((0.015,) * 8)
    assert set(found.obtained) == {"0.5", "1"}


def test_the_schedule_goes_on_where_it_was_left():
    tested = Processes(CPU)
    measured(tested, most=4, first=8)
    assert tested.plans[0] == (1.0, 0.0, 0.5)


def test_after_every_process_it_is_asked_whether_one_more_may_begin():
    found = measured(Processes(GPU), most=6)
    assert [len(one.measurement.samples) for one in found.all] == [4, 6]
    assert set(found.asked) == {0, 1, 2, 3, 4, 5, 6}


def test_without_time_nothing_is_started():
    assert measured(Processes(GPU), most=0).all == []


def test_what_was_measured_before_a_failure_stays():
    def answer(number, slowdowns):
        if number == 6:
            raise OutOfMemoryError("no room")
        return answer_of(slowdowns)

    found = measured(Processes(GPU, answer), most=60).last
    assert found.measurement.failure == Failure("oom", "no room")
    assert found.medians_s["0"] == (0.01,) * 5


def test_how_long_threads_waited_is_kept_for_each_slowdown():
    def answer(number, slowdowns):
        told = answer_of(slowdowns)
        told["sample"]["facts"]["waited"] = 0.1
        told["slowed"][0]["waited"] = 0.2
        return told

    found = measured(Processes(GPU, answer), most=4).last
    assert found.waited["0"] == (0.1,) * 4
    assert sorted({share for name, shares in found.waited.items() if name != "0" for share in shares if share}) == [0.2]
    assert found.waited.keys() == found.medians_s.keys()


def test_a_sample_that_is_refused_takes_its_slowdowns_with_it():
    def answer(number, slowdowns):
        told = answer_of(slowdowns)
        if number == 3:
            told["sample"]["iterations_s"] = []
        return told

    found = measured(Processes(GPU, answer), most=60).last
    assert found.measurement.failure == Failure("protocol", "the worker timed 0 calls where at least 5 were asked for.")
    assert {len(column) for column in found.medians_s.values()} == {2}


def test_what_cannot_be_compiled_is_the_end_of_it_and_is_told(monkeypatch):
    runner = Processes(GPU)

    def refuse(*, builds):
        raise OutOfMemoryError("no room")

    monkeypatch.setattr(runner, "execution", refuse)
    (found,) = measure_selftest(runner, first=0, going_on=lambda count, slowest_s: True)
    assert found.measurement.failure == Failure("oom", "no room")
    assert found.measurement.samples == ()
