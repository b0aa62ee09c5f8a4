"""The phases of a measurement, and who is told when they begin and end.

Standard library only: workers import this under foreign interpreters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from pytest_sdperf.core.contracts import Runner


class PhaseListener(ABC):
    """Told by a worker's task when a phase begins and ends, so that memory can be watched outside timed regions."""

    @abstractmethod
    def phase(self, name: str) -> AbstractContextManager[None]:
        """Enter one phase: `first_run`, `second_run`, `warmup`, `timed`, `energy`."""


class Silent(PhaseListener):
    """Listens to nothing."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Enter a phase that nobody watches."""
        yield


class Shared(PhaseListener):
    """Tells the runners of a case too, before the phase begins and after it."""

    def __init__(self, listener: PhaseListener, runners: Iterable[Runner]) -> None:
        self._listener, self._runners = listener, tuple(runners)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Enter the phase."""
        for runner in self._runners:
            runner.enter(name)
        with self._listener.phase(name):
            yield
        for runner in self._runners:
            runner.leave(name)
