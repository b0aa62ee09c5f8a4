"""Clocks that `nvidia-smi -lgc` has locked: seen under load alone, stored with a session, compared with the next."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import CASE, failed, measurement, session, stored

from pytest_sdperf.acceptance.sessions import Provenance, measurement_of, session_of
from pytest_sdperf.builds.processes.events import Event
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.watches import StateWatch
from pytest_sdperf.core.device import Health
from pytest_sdperf.core.machine import health
from tests.devices.fake_pynvml import Card

BUSY, IDLE, LOCKED, CAPPED = 0x0, 0x1, 0x2, 0x4
GPU = Policy()
LOCKED_NOW = (
    "The clocks of the GPU are locked now and were free when the baseline was recorded, so the times cannot be "
    "compared. Either let them go (sudo nvidia-smi -rgc) and measure again, `sdperf doctor` prints the commands for "
    "this card; or move the baseline away and record every case with locked clocks."
)
FREE_NOW = (
    "The clocks of the GPU are free now and were locked when the baseline was recorded, so the times cannot be "
    "compared. Either lock them as they were (sudo nvidia-smi -lgc MHZ,MHZ) and measure again, `sdperf doctor` prints "
    "the commands for this card; or move the baseline away and record every case with free clocks."
)


def card(**fields):
    return Card("NVIDIA H100 80GB HBM3", 81_559, (9, 0), **fields)


@pytest.mark.parametrize(
    ("bits", "locked"), [(BUSY, False), (CAPPED, False), (LOCKED, True), (LOCKED | CAPPED, True), (IDLE, None)]
)
def test_a_card_that_works_tells_whether_its_clocks_are_locked(nvml, bits, locked):
    probe = nvml(card(reasons=bits))
    assert probe.health(probe.find()[0]).clocks_locked is locked


def test_a_card_that_does_not_tell_what_holds_its_clocks(nvml):
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    probe = nvml(card(unsupported=frozenset(names)))
    assert probe.health(probe.find()[0]).clocks_locked is None


@pytest.fixture
def taken(nvml):
    """Measure on a card whose driver says this, process after process, while each keeps it busy."""

    def take(*reasons, **fields):
        measured_on = card()
        probe = nvml(measured_on)
        (device,) = probe.find()
        watch, idle = StateWatch(probe, device), Health()
        for bits in reasons:
            measured_on.reasons = bits
            watch.on_event(Event("begin", "first_run"))
            watch.on_event(Event("end", "first_run"))
            watch.close()
        return measurement(readings=health.readings(before=idle, during=watch.seen, after=idle), **fields)

    return take


@pytest.mark.parametrize(
    ("reasons", "locked"),
    [((LOCKED,), True), ((LOCKED, IDLE), True), ((IDLE, LOCKED, BUSY), True), ((IDLE, BUSY), False), ((IDLE,), None)],
)
def test_every_process_is_asked_and_one_that_idles_takes_nothing_back(taken, reasons, locked):
    assert health.clocks_locked(taken(*reasons).readings) is locked


@pytest.mark.parametrize(
    ("then", "now", "sentence"),
    [(BUSY, LOCKED, LOCKED_NOW), (LOCKED, BUSY, FREE_NOW), (LOCKED, LOCKED, ""), (BUSY, BUSY, ""), (IDLE, LOCKED, "")],
)
def test_a_baseline_of_other_clocks_judges_nothing(taken, then, now, sentence):
    origin = Provenance("h100-sxm5-80gb", {}, "2026-11-28T10:00Z")
    before = session_of(taken(then), origin)
    faster = dataclasses.replace(taken(now), samples=measurement(5, 5, 5).samples)
    found = judge(faster, stored(before), policy=GPU)
    told = [(one.outcome.value, one.code, one.sentence) for one in found if one.code == "clocks-changed"]
    assert told == ([("INVALID", "clocks-changed", sentence)] if sentence else [])
    assert (len(found) == 1) == bool(sentence)
    # What was stored says the same when it is judged again.
    assert health.clocks_locked(measurement_of(before, CASE).readings) is before.clocks_locked


def test_sessions_that_do_not_say_are_passed_over(taken):
    known, silent = session_of(taken(LOCKED), Provenance("h100", {}, "2026-11-28T10:00Z")), session()
    assert [one.code for one in judge(taken(BUSY), stored(known, silent), policy=GPU)] == ["clocks-changed"]
    assert "clocks-changed" not in {one.code for one in judge(taken(BUSY), stored(silent, silent), policy=GPU)}


def test_a_process_that_died_is_what_is_said_first(taken):
    before = session_of(taken(BUSY), Provenance("h100", {}, "2026-11-28T10:00Z"))
    died = failed("crash", "it died", readings=taken(LOCKED).readings)
    assert [one.code for one in judge(died, stored(before), policy=GPU)] == ["worker-crash"]
