"""What a worker tells while it runs, as the suite sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pytest_sdperf.core import progress
from pytest_sdperf.tasks.sampling.phases import PhaseListener


@dataclass(frozen=True)
class Event:
    """Something a worker told while it ran.

    Attributes:
        name: `say`, `at`, `begin` or `end`.
        text: What it does, the noun of what is counted, or the name of the phase.
        done, total: How far it is.
    """

    name: str
    text: str
    done: float = 0.0
    total: float = 0.0


def shown(step: progress.Step, on_event: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """Return what shows the events of a worker as progress of a step, and passes them on."""

    def hear(event: Event) -> None:
        if event.name == "say":
            step.say(event.text)
        elif event.name == "at":
            step.at(event.done, event.total, event.text)
        elif event.name == "begin":
            step.enter(event.text)
        if on_event is not None:
            on_event(event)

    return hear


class Announcer(PhaseListener):
    """Passes what an in-process task tells on as events."""

    def __init__(self, listen: Callable[[Event], None]) -> None:
        self._listen = listen

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Announce the begin and the end of a phase."""
        self._listen(Event("begin", name))
        yield
        self._listen(Event("end", name))

    def say(self, text: str) -> None:
        """Pass on what it does now."""
        self._listen(Event("say", text))
