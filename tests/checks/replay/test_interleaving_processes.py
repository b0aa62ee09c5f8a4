"""Resolutions alone and in turns: which process runs when, and what is kept when one gives no times."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from door_toys import ToyProbe
from sample_values import case, execution

from pytest_sdperf.builds.processes.process import Event
from pytest_sdperf.checks.replay import interleaving
from pytest_sdperf.core.device import Device, Health
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError, WorkerError
from pytest_sdperf.core.values import Failure, Workload
from pytest_sdperf.tasks import interleave as tasks
from pytest_sdperf.tasks._execution import CallRequest

CARD = Device("cuda", "NVIDIA T4", "t4", uuid="GPU-1")
SIZES = (Workload(1, 512, 512, 1), Workload(1, 768, 512, 1))
NAME = "sd15-thin unet"


class Case:
    """A runner whose processes answer with a time, or raise an error."""

    def __init__(self, log, *, fails_at=-1, error=None):
        self.case = case(component="unet")
        self.log, self._fails_at, self._error = log, fails_at, error
        self.context = SimpleNamespace(device=CARD, probe=ToyProbe(CARD), say=log.append)

    def execution(self, inputs):
        return execution("unet")

    @contextlib.contextmanager
    def workers(self, function, request, *, count, module):
        assert (module, [call.name for call in request.calls]) == ("interleave", ["512x512", "768x512"])
        assert request.rounds == interleaving.GPU_ROUNDS
        yield [lambda *, on_event: self._answer(function, on_event)] * count

    def _answer(self, side, on_event):
        self.log.append(side)
        if self.log.count("alone") + self.log.count("turns") - 1 == self._fails_at:
            raise self._error
        for name in ("begin", "end"):
            on_event(Event(name, "first_run"))
        time_s = 0.1 if side == "alone" else 0.2
        prepared = [] if side == "alone" else [2, 3]
        return {"medians_s": {"512x512": time_s, "768x512": 2 * time_s}, "prepared": prepared}


def requests(runner, calls):
    return tuple(CallRequest(call.name, SIZES[0]) for call in calls)


@pytest.fixture
def log(monkeypatch):
    found = []

    def calls_of(runner, sizes):
        found.append("compiled")
        return [SimpleNamespace(name=f"{size.height}x{size.width}") for size in sizes] * 2

    monkeypatch.setattr(interleaving, "calls_of", calls_of)
    monkeypatch.setattr(interleaving, "call_requests", requests)
    return found


def taken(log, *, pairs=2, more=lambda found: 0, **how):
    return interleaving.interleave(Case(log, **how), SIZES, pairs=pairs, more=more)


def test_the_order_changes_from_pair_to_pair(log):
    found = taken(log)
    assert [entry for entry in log if entry in ("alone", "turns")] == ["alone", "turns", "turns", "alone"]
    assert [entry for entry in log if " " in entry] == [
        f"starting 4 processes for {NAME}, resolutions alone and in turns",
        f"measuring {NAME}: resolutions alone, pair 1 of 2",
        f"measuring {NAME}: resolutions in turns, pair 1 of 2",
        f"measuring {NAME}: resolutions in turns, pair 2 of 2",
        f"measuring {NAME}: resolutions alone, pair 2 of 2",
    ]
    assert found.alone_s == {"512x512": (0.1, 0.1), "768x512": (0.2, 0.2)}
    assert found.turns_s == {"512x512": (0.2, 0.2), "768x512": (0.4, 0.4)}
    assert (found.prepared, found.failure) == ({"first": 2, "later": 1}, None)


def test_pairs_are_added_for_as_long_as_they_are_asked_for(log):
    asked = []

    def more(found):
        asked.append(found.pairs)
        return {2: 2}.get(found.pairs, 0)

    assert taken(log, more=more).pairs == 4
    assert asked == [2, 4]


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (WorkerError("it ended", reason="crash", tail="last words"), Failure("crash", "it ended", "last words")),
        (OutOfMemoryError("no room"), Failure("oom", "no room")),
    ],
)
def test_a_process_without_times_ends_it_and_earlier_times_stay(log, error, failure):
    found = taken(log, fails_at=2, error=error, more=lambda found: 2)
    assert found.failure == failure
    assert [entry for entry in log if entry in ("alone", "turns")] == ["alone", "turns", "turns"]
    assert (found.pairs, found.turns_s["512x512"]) == (1, (0.2,))


def test_what_cannot_be_compiled_is_a_failure_too(log, monkeypatch):
    def refuse(runner, calls):
        raise BuildError("no kernel")

    monkeypatch.setattr(interleaving, "call_requests", refuse)
    found = taken(log)
    assert (found.failure, found.pairs) == (Failure("refused", "no kernel"), 0)


def test_the_device_is_read_after_compiling_and_while_it_is_busy(log, monkeypatch):
    states = iter([Health(), *[Health(reasons=("It is hot.",))] * 2])
    monkeypatch.setattr(ToyProbe, "health", lambda probe, device: log.append("read") or next(states, Health()))
    found = taken(log, pairs=1)
    assert log[:2] == ["compiled", "read"]
    assert found.health == ("It is hot.",)


class Loaded:
    """A loaded component that tells when it runs, and of a worker's phases."""

    def __init__(self, log):
        self._log = log

    @contextlib.contextmanager
    def phase(self, name):
        self._log.append(f"begin {name}")
        yield
        self._log.append(f"end {name}")

    def run(self):
        self._log.append("run")

    def bind(self, inputs):
        pass

    resize = bind

    def synchronize(self):
        pass


WARMED = ["begin first_run", "run", "end first_run", "begin warmup", *["run"] * 1, "end warmup"]


@pytest.mark.parametrize(
    ("side", "expected"),
    [
        # Of each size two calls to warm up and three that are timed; the device is read for the first size.
        ("alone", [*WARMED, *["run"] * 3, *["run"] * 5]),
        ("turns", [*WARMED[:4], *["run"] * 3, "end warmup", *["run"] * 6]),
    ],
)
def test_no_phase_in_which_the_device_is_read_reaches_into_timed_calls(monkeypatch, side, expected):
    found = []
    loaded = Loaded(found)

    @contextlib.contextmanager
    def load(case, component, context):
        yield SimpleNamespace(runner=loaded)

    monkeypatch.setattr(tasks, "loaded_component", load)
    monkeypatch.setattr(tasks, "load_arrays", lambda path: {})
    monkeypatch.setattr(tasks, "prepared", lambda runners: [])
    calls = tuple(CallRequest(str(size.height), size) for size in SIZES)
    getattr(tasks, side)(tasks.TimeSizes(execution("unet"), calls, rounds=3), SimpleNamespace(listener=loaded))
    assert found == expected
