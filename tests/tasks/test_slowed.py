"""The task of the self-test: calls as they are and made longer, on a clock that the test owns."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sample_values import execution, sample

from pytest_sdperf.core.settings import PipelineFactory
from pytest_sdperf.core.values import to_json
from pytest_sdperf.tasks import slowed
from pytest_sdperf.tasks._execution import MeasureCase, Measured, OwnPipeline
from pytest_sdperf.tasks.sampling.timing import TimingPlan

PLAN = TimingPlan(min_iterations=5, max_iterations=5)
OWN = OwnPipeline(PipelineFactory("mine", "make", "/home"))


class Device:
    """A device whose calls take the given seconds, with a clock that moves a little whenever it is read."""

    def __init__(self, *seconds, tick=1e-4):
        self._seconds, self._tick = list(seconds), tick
        self.now, self.calls = 0.0, 0

    def clock(self):
        self.now += self._tick
        return self.now

    def call(self):
        self.now += self._seconds[min(self.calls, len(self._seconds) - 1)]
        self.calls += 1

    def timed(self, *slowdowns):
        timing = slowed.EachSlowdown(slowdowns)
        return timing(self.call, PLAN, self.clock), timing.found


def test_calls_are_timed_as_they_are_and_made_longer():
    device = Device(1.0)
    plain, (slow, slower) = device.timed(0.05, 0.0, 0.5)
    assert device.calls == 3 * 5
    assert plain.iterations_s == pytest.approx((1.0,) * 5, abs=1e-3)
    assert (slow.asked, slower.asked) == (0.05, 0.5)
    assert slow.obtained == pytest.approx(0.05, abs=2e-4)
    assert slow.median_s == pytest.approx(1.05, abs=1e-3)
    assert slower.median_s == pytest.approx(1.5, abs=1e-3)


def test_a_slowdown_is_a_share_of_each_call_whatever_that_takes():
    _, (one,) = Device(1.0, 9.0, 1.0, 3.0, 1.0).timed(0.1, 0.0)
    assert one.obtained == pytest.approx(0.1, abs=2e-4)


def test_the_share_that_is_told_is_the_one_that_was_obtained():
    _, (one,) = Device(1.0, tick=0.07).timed(0.02, 0.0)  # nobody looks at the clock in time
    assert one.obtained == pytest.approx(0.07 / 1.07)


@pytest.mark.parametrize(
    ("task", "case"),
    [
        ("component", execution()),
        ("pipeline", execution(component="pipeline")),
        ("external_pipeline", execution(component="pipeline", own=OWN)),
    ],
)
def test_a_case_is_measured_by_the_task_that_measures_it_for_users(monkeypatch, task, case):
    asked, device = [], Device(1.0)

    def measure(request, context, *, timing):
        asked.append(request)
        timing(device.call, request.plan, device.clock)
        return Measured(sample())

    monkeypatch.setattr(getattr(slowed, task), "measure", measure)
    found = slowed.measure(slowed.MeasureSlowed(case, PLAN, (0.0, 0.5)), SimpleNamespace())
    assert asked == [MeasureCase(case, PLAN, what_ran=False)]
    assert to_json(found.sample) == to_json(sample())
    assert [one.asked for one in found.slowed] == [0.5]
