"""Workers of pytest-xdist: each measures on a GPU of its own, and the process that started them has the one report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.machine.device_choice import peers
from pytest_sdperf.core.units import plural
from pytest_sdperf.plugin.run import CHOSEN, TOKEN, Run

_CARDS, _LEFT_OUT, _DIST, _ELSEWHERE = "sdperf_gpus", "sdperf_left_out", "sdperf_dist", "sdperf_elsewhere"
EACH = "each"


class Distribution:
    """What the controller hands to its workers; registered in the controller and in a run without workers.

    Args:
        run: The run.
        config: pytest's, for the way in which tests are distributed.
    """

    def __init__(self, run: Run, config: pytest.Config) -> None:
        self._run, self._config = run, config
        self._taken: dict[str, int] = {}
        self._peers: tuple[list[Device], list[str]] | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker its GPU: one that nobody has, as the one of a worker that has crashed."""
        cards, left_out = self._cards()
        used = list(self._taken.values())
        place = min(range(len(cards)), key=used.count, default=0)
        self._taken[node.workerinput["workerid"]] = place
        node.workerinput.update(
            {
                TOKEN: self._run.token,
                CHOSEN: _name(cards[place], place) if cards else "",
                _CARDS: [f"{card.name} ({card.slug})" for card in cards],
                _LEFT_OUT: left_out,
                _DIST: self._config.getoption("dist", "no"),
                _ELSEWHERE: not getattr(node.gateway.spec, "popen", True),
            }
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the GPU of a worker back."""
        self._taken.pop(node.workerinput["workerid"], None)

    def _cards(self) -> tuple[list[Device], list[str]]:
        """Return the GPUs that workers may have, once; none on a CPU, or where the device is not in this machine."""
        if self._peers is None:
            found = self._run.found if self._run.settings.on_gpu else None
            self._peers = peers(self._run.settings.gpu, self._run.catalog, found) if found else ([], [])
        return self._peers


def _name(card: Device, place: int) -> str:
    """Return what names a card to a worker, which must not choose again."""
    return card.uuid or (card.slug if place == 0 else str(card.index))


def check_forked(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Refuse pytest-forked, whose tests end with a process of their own: what they build and measure would be lost.

    Raises:
        OptionError: A test would run in such a process.
    """
    asked = config.getoption("forked", default=None)
    if asked is None:  # there is no such plug-in
        return
    marked = next((item.nodeid for item in items if item.get_closest_marker("forked")), "")
    if asked or marked:
        raise OptionError(
            f"{'--forked' if asked else f'the marker `forked` of {marked}'} runs a test in a process that ends with "
            f"it, and tests of one run share builds, results and one report. Leave it out: every case is measured in "
            f"processes of its own."
        )


def check_workers(handed: Mapping[str, Any]) -> None:
    """Refuse to measure in a way that would disturb measurements, or take them twice.

    Args:
        handed: What this worker was told by its controller; empty without workers.

    Raises:
        OptionError: More workers than GPUs, workers on other machines, or every test in every worker.
    """
    count = handed.get("workercount", 1)
    if handed.get(_DIST) == EACH:
        raise OptionError(
            f"--dist={EACH} runs every test in each of {plural(count, 'worker')}, and a case has one verdict. Type "
            f"--dist=load, or leave the option out."
        )
    if handed.get(_ELSEWHERE):
        raise OptionError(
            "a worker of pytest-xdist runs on another machine, and a run is judged by the baseline of one. Leave out "
            "--tx and type -n: it starts workers here."
        )
    cards = handed.get(_CARDS, [])
    if cards and count > len(cards):
        listed = ", ".join(dict.fromkeys(cards))
        others = f" Not counted: {'; '.join(handed[_LEFT_OUT])}." if handed[_LEFT_OUT] else ""
        raise OptionError(
            f"{plural(count, 'worker')} of pytest-xdist would measure on {plural(len(cards), 'GPU')} ({listed}): each "
            f"needs one of its own.{others} Type -n{len(cards)}, or name only tests that do not measure."
        )
