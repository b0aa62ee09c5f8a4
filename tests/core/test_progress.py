"""What is told of a step: in words, how far it is, what ends it and what remains."""

from __future__ import annotations

import threading

import pytest
from steps_seen import Seen

from pytest_sdperf.core import clock, progress
from pytest_sdperf.core.progress import BUILD_TIMEOUT, WORKER_TIMEOUT, Limit


@pytest.fixture
def now(monkeypatch):
    """Return a clock that only the test moves: `now[0] += 12`."""
    seconds = [0.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: seconds[0])
    return seconds


@pytest.fixture
def seen(now):
    watcher = Seen()
    with progress.watched_by(watcher):
        yield watcher


def told(step, now):
    return f"{step.words()}: {step.far(now[0])}"


def test_elapsed_and_what_it_took_last_time(seen, now):
    for before in ("12 s", "12 s of about 41 s"):
        with progress.step("exporting sd15 unet") as step:
            now[0] += 12
            assert told(step, now) == f"exporting sd15 unet: {before}"
            now[0] += 29
    with progress.step("exporting sd15 unet") as step:
        now[0] += 50
        assert told(step, now) == "exporting sd15 unet: 50 s, 41 s last time"


def test_what_fails_does_not_say_how_long_it_takes(seen, now):
    def fail():
        with progress.step("exporting sd15 unet"):
            now[0] += 41
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        fail()
    assert seen.seconds == {}


@pytest.mark.parametrize(
    ("told_at", "far"),
    [
        ((430, 1000), "43 %, 12 s"),
        ((12, 50, "step"), "step 12 of 50, 12 s"),
        ((1234, 5678, "node"), "node 1,234 of 5,678, 12 s"),
        ((0, 0), "12 s"),
    ],
)
def test_a_share_or_a_count(seen, now, told_at, far):
    with progress.step("drawing the weights of sd15 unet") as step:
        progress.at(*told_at)
        now[0] += 12
        assert told(step, now) == f"drawing the weights of sd15 unet: {far}"


def test_from_half_of_a_limit_on_it_names_what_allows_more(seen, now):
    with progress.step("compiling sd15 unet", limit=Limit(600.0, BUILD_TIMEOUT)) as step:
        now[0] += 299
        assert told(step, now) == "compiling sd15 unet: 5.0 min"
        now[0] += 1
        assert told(step, now) == "compiling sd15 unet: 5.0 min of at most 10.0 min (-o sdperf_build_timeout=TIME)"


def test_the_limit_is_that_of_the_process_whatever_it_does_meanwhile(seen, now):
    with progress.step("exporting", limit=Limit(60.0, WORKER_TIMEOUT)) as step:
        now[0] += 25
        step.say("checking the graph")
        step.at(1, 4)
        assert told(step, now) == "checking the graph: 25 %, 0 s"
        now[0] += 5
        assert told(step, now) == "checking the graph: 25 %, 30 s of at most 60 s (-o sdperf_worker_timeout=TIME)"
    assert seen.seconds == {"exporting": 25.0, "checking the graph": 5.0}


def test_the_phases_of_a_measurement_and_which_of_them_nobody_may_disturb(seen, now):
    with progress.step("measuring sd15 unet, process 2 of 3") as step:
        words = []
        for phase in ("first_run", "second_run", "warmup", "timed", "energy"):
            step.enter(phase)
            words.append((step.words().rpartition(", ")[2], step.quiet))
    assert words == [
        ("first run", False),
        ("second run", False),
        ("warm-up", True),
        ("timed calls", True),
        ("energy", True),
    ]


def test_two_that_are_not_alike_do_not_tell_of_each_other(seen, now):
    for like in ("float16", "float32", "float16"):
        with progress.step("compiling sd15 unet", like=like) as step:
            last = step.last_s
            now[0] += 7
    assert last == 7.0
    assert seen.seconds == {"compiling sd15 unet (float16)": 7.0, "compiling sd15 unet (float32)": 7.0}


def test_what_is_told_in_a_worker_goes_to_the_suite_and_not_too_often(now):
    told = []

    class Teller:
        def say(self, text):
            told.append(text)

        def at(self, done, total, noun):
            told.append((done, total, noun))

    progress.told_by(Teller())
    try:
        progress.say("tuning kernels")
        for number in range(100):
            now[0] += 0.01
            progress.at(number, 100, "kernel")
    finally:
        progress.told_by(None)
    assert told[0] == "tuning kernels"
    assert 4 <= len(told[1:]) <= 6
    assert told[1] == (0, 100, "kernel")


def test_outside_of_any_step_nobody_is_told(seen):
    progress.say("compiling")
    progress.at(1, 2)
    assert seen.said == []
    assert progress.doing() is None


def test_a_frame_only_stands_in_front_and_each_thread_has_steps_of_its_own(seen):
    found = []
    with progress.step("test", frame=True):
        assert progress.doing() is None
        with progress.step("running") as step:
            assert progress.doing() is step
            other = threading.Thread(target=lambda: found.append(progress.doing()))
            other.start()
            other.join()
    assert found == [None]


@pytest.mark.parametrize(
    ("left_s", "whole", "words"),
    [(250.0, True, "about 4.0 min left"), (250.0, False, "more than 4.0 min left"), (10.0, True, ""), (None, True, "")],
)
def test_what_remains(seen, now, left_s, whole, words):
    with progress.step("test", frame=True) as frame:
        frame.left_s, frame.whole = left_s, whole
        now[0] += 10
        assert frame.left(now[0]) == words
