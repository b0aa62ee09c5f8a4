"""A measurement from its processes: what is kept when one of them gives no sample."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace

import pytest
from door_toys import ToyProbe
from hypothesis import given
from hypothesis import strategies as st
from sample_values import case, execution, sample
from steps_seen import Seen

from pytest_sdperf.builds.processes.events import Event
from pytest_sdperf.checks.pipelines.judging.waiting import disturbed_share
from pytest_sdperf.checks.pipelines.measure import COMPONENT_PLAN, MOST_REPLACED, Recording, measure, plan_of
from pytest_sdperf.core import progress
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.device import Device, Health
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError, WorkerError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Failure, Measurement, to_json

CPU = Device("cpu", "A CPU", "cpu-a-2c")
CARD = Device("cuda", "NVIDIA T4", "t4", uuid="GPU-1")


class Case:
    """A runner whose processes answer as they are told: a time in ms, or with how long they waited, or an error."""

    is_pipeline = False
    calls = 5
    facts: Mapping[str, object] = MappingProxyType({})

    def __init__(self, *answers, build=None, start=None) -> None:
        self.case = case()
        self.context = SimpleNamespace(device=CPU, probe=ToyProbe(CPU), catalog=Catalog())
        self._answers, self._build, self._start = list(answers), build, start
        self.said: list[str] = []
        self.log: list[str] = []

    def builds(self):
        if self._build:
            raise self._build
        return {}

    def execution(self, *, builds):
        self.log.append("compiled")
        return execution()

    @contextlib.contextmanager
    def workers(self, function, request, *, count):
        assert (function, request.case.component) == ("measure", "unet")
        if self._start:
            raise self._start
        yield [self._worker] * count

    def _worker(self, *, on_event):
        self.log.append("asked")
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for name in ("begin", "end"):
            on_event(Event(name, "first_run"))
        ms, waited = answer if isinstance(answer, tuple) else (answer, None)
        facts = self.facts if waited is None else {"waited": waited}
        taken = dataclasses.replace(sample(ms), facts=facts)
        return {"sample": to_json(dataclasses.replace(taken, iterations_s=taken.iterations_s[: self.calls]))}

    def measured(self, processes=3):
        return self.measure(processes=processes)

    def measure(self, **how):
        with progress.watched_by(Seen(self.said)):
            return measure(self, say=self.said.append, **how)


def test_each_process_gives_one_sample_and_is_announced():
    runner = Case(10.0, 11.0, 12.0)
    measured = runner.measured()
    assert [one.median_s for one in measured.samples] == [0.010, 0.011, 0.012]
    assert measured.failure is None
    name = f"{runner.case.model} {runner.case.component}"
    assert runner.said == [
        f"starting 3 processes for {name}",
        *(f"measuring {name}, process {number} of 3" for number in (1, 2, 3)),
    ]


def test_many_processes_start_in_groups():
    runner = Case(*[10.0] * 5)
    assert len(runner.measured(5).samples) == 5
    name = f"{runner.case.model} {runner.case.component}"
    assert [text for text in runner.said if text.startswith("starting")] == [
        f"starting 4 processes for {name}",
        f"starting 1 process for {name}",
    ]


def test_more_processes_are_started_for_as_long_as_they_are_asked_for():
    runner, asked = Case(*[10.0] * 12), []

    def more(measurement):
        asked.append(len(measurement.samples))
        return {3: 3, 6: 2}.get(len(measurement.samples), 0)

    assert len(runner.measure(processes=3, more=more).samples) == 8
    assert asked == [3, 6, 8]
    name = f"{runner.case.model} {runner.case.component}"
    assert runner.said[4:7] == [
        f"{name} is not certain yet: 3 processes more",
        f"starting 3 processes for {name}",
        f"measuring {name}, process 4 of 6",
    ]


def test_a_process_that_waited_for_a_processor_is_replaced_and_kept_beside():
    runner = Case((37.0, 0.0), (37.1, 0.04), (119.0, 0.4), (37.2, 0.0))
    measured = runner.measured()
    assert [one.median_s for one in measured.samples] == pytest.approx([0.037, 0.0371, 0.0372])
    assert [one.median_s for one in measured.replaced] == [0.119]
    name = f"{runner.case.model} {runner.case.component}"
    assert runner.said[4:] == [
        f"starting 1 process for {name} in place of what waited for processors that something else used",
        f"measuring {name}, process 1 of 1",
    ]
    assert convert(to_json(measured), Measurement) == measured


def test_on_a_machine_that_is_never_quiet_few_are_replaced_and_the_quietest_stay():
    runner = Case((30.0, 0.3), (20.0, 0.2), (50.0, 0.5), (40.0, 0.4), (10.0, 0.1))
    measured = runner.measured()
    assert [one.median_s for one in measured.samples] == [0.010, 0.020, 0.030]
    assert [one.median_s for one in measured.replaced] == [0.040, 0.050]


def test_a_slow_process_that_waited_for_nothing_is_not_replaced():
    measured = Case((37.0, 0.0), (37.0, 0.0), (119.0, 0.049)).measured()
    assert len(measured.samples) == 3
    assert measured.replaced == ()


@given(st.lists(st.floats(0.0, 1.0), min_size=20, max_size=20), st.integers(1, 6), st.integers(0, 6))
def test_replacing_is_bounded_and_chooses_by_what_was_waited_alone(shares, processes, later):
    runner = Case(*((100.0 + number, share) for number, share in enumerate(shares)))
    looks = iter([later, 0])
    found = runner.measure(processes=processes, more=lambda measured: next(looks))
    total = processes + later
    assert len(found.samples) == total
    assert len(found.replaced) <= MOST_REPLACED
    assert max(disturbed_share(one) for one in found.samples) <= min(map(disturbed_share, found.replaced), default=1.0)
    if len(found.replaced) < MOST_REPLACED:
        assert not any(map(disturbed_share, found.samples))


def test_a_replacement_that_fails_is_a_failure_and_nothing_is_lost():
    measured = Case((37.0, 0.0), (119.0, 0.4), WorkerError("it ended", reason="crash")).measured(2)
    assert (len(measured.samples), measured.failure.reason) == (2, "crash")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (WorkerError("it ended", reason="crash", tail="last words"), Failure("crash", "it ended", "last words")),
        (OutOfMemoryError("no room"), Failure("oom", "no room")),
        (BuildError("no such thing"), Failure("refused", "no such thing")),
    ],
)
def test_a_process_without_a_sample_ends_the_measurement_and_earlier_samples_stay(error, failure):
    runner = Case(10.0, error, 12.0)
    measured = runner.measured()
    assert [one.median_s for one in measured.samples] == [0.010]
    assert measured.failure == failure
    assert not any(text.endswith("process 3 of 3") for text in runner.said)


@pytest.mark.parametrize("when", ["build", "start"])
def test_what_cannot_be_built_or_started_is_a_failure_too(when):
    measured = Case(**{when: WorkerError("too late", reason="timeout")}).measured()
    assert (measured.samples, measured.failure) == ((), Failure("timeout", "too late"))


@pytest.mark.parametrize(
    ("pipeline", "device", "least", "warm"),
    [(False, CPU, 5, True), (False, CARD, 5, True), (True, CPU, 2, False), (True, CARD, 2, True)],
)
def test_a_request_on_a_cpu_is_warm_after_its_two_first_runs(pipeline, device, least, warm):
    plan = plan_of(SimpleNamespace(is_pipeline=pipeline, context=SimpleNamespace(device=device)))
    assert (plan.min_iterations, plan.warmup_s > 0) == (least, warm)


def test_the_state_of_a_gpu_is_kept_from_before_during_and_after(monkeypatch):
    runner = Case(10.0)
    idle, busy = Health(sm_clock_mhz=345, temperature_c=30.0), Health(sm_clock_mhz=1980, reasons=("It is hot.",))
    probe = ToyProbe(CARD)
    monkeypatch.setattr(probe, "memory_used_bytes", lambda device: None)
    states = iter([idle, busy])
    monkeypatch.setattr(probe, "health", lambda device: next(states, idle))
    runner.context = SimpleNamespace(device=CARD, probe=probe, catalog=Catalog())
    measured = runner.measured(1)
    assert measured.readings == {
        "before": {"sm_clock_mhz": 345, "temperature_c": 30.0, "counter_unit": "s"},
        "during": {"sm_clock_mhz": 1980, "counter_unit": "s"},
        "after": {"sm_clock_mhz": 345, "temperature_c": 30.0, "counter_unit": "s"},
    }
    assert measured.health == ("It is hot.",)


@pytest.mark.parametrize(("timed", "told"), [(4, "4 calls"), (1, "1 call"), (0, "0 calls")])
def test_a_process_that_times_fewer_calls_than_it_was_asked_for_gives_no_sample(timed, told):
    runner = Case(10.0)
    runner.calls = timed
    taken = runner.measured(processes=1)
    assert taken.samples == ()
    assert taken.failure == Failure("protocol", f"the worker timed {told} where at least 5 were asked for.")


def test_a_process_whose_engine_tells_facts_that_cannot_be_judged_gives_no_sample():
    runner = Case(10.0)
    runner.facts = {"memcpy_nodes": "none"}
    taken = runner.measured(processes=1)
    assert taken.samples == ()
    assert taken.failure == Failure(
        "protocol",
        "the engine tells a fact of another type: Expected `int | null`, got `str` - at `$[0].facts.memcpy_nodes`.",
    )


def test_the_state_before_is_that_after_compiling(monkeypatch):
    runner = Case(10.0)
    monkeypatch.setattr(runner.context.probe, "health", lambda device: runner.log.append("read") or Health())
    runner.measured(1)
    assert runner.log == ["compiled", "read", "asked", "read"]


def test_what_cannot_be_compiled_is_tried_once():
    runner = Case()
    runner.execution = lambda *, builds: runner.log.append("compiling") or (_ for _ in ()).throw(BuildError("no"))
    assert runner.measured().failure == Failure("refused", "no")
    assert runner.log == ["compiling"]


@pytest.mark.parametrize(("joules", "asked_s"), [(1250.5, 2.0), (0.0, 2.0), (None, 0.0)])
def test_calls_are_repeated_for_energy_where_the_device_tells_it(monkeypatch, joules, asked_s):
    runner = Case(10.0)
    probe = ToyProbe(CARD)
    monkeypatch.setattr(probe, "energy_j", lambda device: joules)
    runner.context = SimpleNamespace(device=CARD, probe=probe, catalog=Catalog())
    assert Recording(runner).request.plan == dataclasses.replace(COMPONENT_PLAN, energy_s=asked_s)


def test_a_sample_of_a_device_that_tells_no_energy_says_so():
    runner = Case(10.0)
    runner.context = SimpleNamespace(device=CARD, probe=ToyProbe(CARD), catalog=Catalog())
    (taken,) = runner.measured(1).samples
    assert taken.facts == {"energy_not_available": "the driver tells no energy counter of NVIDIA T4"}
