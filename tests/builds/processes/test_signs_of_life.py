from __future__ import annotations

import threading

import pytest

from pytest_sdperf.builds.processes import signs_of_life as module
from pytest_sdperf.builds.processes.signs_of_life import signs_of_life
from pytest_sdperf.core import clock

END = "; after 60.0 min it is ended and its case is INVALID (sdperf_build_timeout)"


class Heard:
    """What was said, from whichever thread."""

    def __init__(self):
        self.lines, self._more = [], threading.Condition()

    def say(self, text):
        with self._more:
            self.lines.append(text)
            self._more.notify_all()

    def until(self, begin, end=""):
        """Wait until a line was said that begins and ends so."""
        with self._more:
            found = self._more.wait_for(lambda: any(self._is(line, begin, end) for line in self.lines), timeout=60)
            assert found, self.lines

    @staticmethod
    def _is(line, begin, end):
        return line.startswith(begin) and line.endswith(end)


@pytest.fixture
def heard(monkeypatch):
    """Return what is said, by a clock that moves a minute each time it is read."""
    minutes = iter(range(1_000_000))
    monkeypatch.setattr(clock, "monotonic_s", lambda: 60.0 * next(minutes))
    return Heard()


@pytest.fixture
def quickly(monkeypatch):
    """Let the minute that is waited for pass at once."""
    monkeypatch.setattr(module, "EVERY_S", 0.001)


def speaking():
    return [thread for thread in threading.enumerate() if "speak" in thread.name]


def test_every_minute_it_says_what_takes_how_long_and_what_ends_it(heard, quickly):
    with signs_of_life("compiling sd15 unet", heard.say, limit_s=3600.0) as hear:
        heard.until(f"still compiling sd15 unet: 60 s so far{END}")
        heard.until(f"still compiling sd15 unet: 2.0 min so far{END}")
        hear("checking the graph of sd15 unet")
        heard.until("checking the graph of sd15 unet")
        heard.until("still checking the graph of sd15 unet: ", END)


def test_it_says_how_long_it_took_last_time(heard, quickly):
    with signs_of_life("compiling sd15 unet", heard.say, limit_s=3600.0, last_s=492.0):
        heard.until(f"still compiling sd15 unet: 60 s so far, 8.2 min last time{END}")


def test_what_nobody_ends_says_so_much_alone(heard, quickly):
    with signs_of_life("building (export)", heard.say, limit_s=None):
        heard.until("still building (export): 60 s so far", "60 s so far")


@pytest.mark.parametrize("limit_s", [0.002, 0.02, 0.2])
def test_it_is_said_before_the_limit_strikes_however_soon_that_is(heard, limit_s):
    with signs_of_life("compiling sd15 unet", heard.say, limit_s=limit_s):
        heard.until("still compiling sd15 unet: 60 s so far; after 0 s it is ended and its case is INVALID")


def test_what_is_over_says_nothing_more(heard, quickly):
    def fail():
        with signs_of_life("compiling", heard.say, limit_s=5.0):
            heard.until("still compiling: 60 s so far; after 5 s it is ended")
            raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        fail()
    assert speaking() == []


def test_a_step_that_is_quick_says_nothing_of_that(heard):
    with signs_of_life("compiling", heard.say, limit_s=3600.0):
        assert len(speaking()) == 1
    assert (heard.lines, speaking()) == ([], [])
