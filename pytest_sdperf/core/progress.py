"""What goes on, and how far it is: told where it happens, in a worker or beside it, and shown by whoever watches.

Example::

    with progress.step("computing the answers of sd15 unet"):
        for number, call in enumerate(calls):
            progress.at(number, len(calls), "call")

In a worker `say` and `at` reach the step in which the suite waits for it; engines, models and tasks call them alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_sdperf.core import clock
from pytest_sdperf.core.units import duration

WORKER_TIMEOUT, BUILD_TIMEOUT = "sdperf_worker_timeout", "sdperf_build_timeout"
# What happens in these phases of a measurement is timed: neither side does more than it must.
_QUIET = frozenset({"warmup", "timed", "energy"})
_PHASES = {"first_run": "first run", "second_run": "second run", "warmup": "warm-up", "timed": "timed calls"}
_AT_MOST_EVERY_S = 0.2
_NEVER_S = float("-inf")


class Teller(Protocol):
    """Takes what is told in a worker to the suite."""

    def say(self, text: str) -> None:
        """Take what goes on from now on."""

    def at(self, done: float, total: float, noun: str) -> None:
        """Take how far it is."""


@dataclass(frozen=True)
class Limit:
    """After so many seconds a step is ended; `option` changes that."""

    seconds: float
    option: str


class Watcher:
    """Is told of steps, from whichever thread; this one shows none of them."""

    def began(self, step: Step) -> None:
        """Take a step that begins."""

    def changed(self, step: Step) -> None:
        """Take a step that does something else now, or is further."""

    def ended(self, step: Step) -> None:
        """Take a step that is over."""

    def last_s(self, key: str) -> float | None:
        """Return how long what has this key took last time; None where nobody knows."""
        return None

    def took(self, key: str, seconds: float) -> None:
        """Take how long it took now."""


class Step:
    """Something that goes on.

    Attributes:
        what: In words.
        like: What else decides how long it takes.
        outer: The step of the same thread that this one is part of.
        frame: Whether it only stands in front of others: `test 3 of 12`.
        began_s, started_s: Since when it does what it does now, and since when it goes on, by `clock.monotonic_s`.
        last_s: How long this took last time; None where nobody knows.
        limit: When it is ended; None if never.
        has_inner: Whether another step was part of it.
        phase: Of a measurement.
        done, total, noun: How far it is: a share, or `step 12 of 50`; a total of 0 is not known.
        left_s, whole: Seconds that remain from its start on, and whether these are all of them; None if not known.
    """

    def __init__(
        self, what: str, watcher: Watcher, *, like: str = "", limit: Limit | None = None, frame: bool = False
    ) -> None:
        self.what, self.like, self.limit, self.frame, self.outer = what, like, limit, frame, _open.get()
        self.has_inner = False
        if self.outer is not None:
            self.outer.has_inner = True
        self.left_s: float | None = None
        self.whole = True
        self.started_s = clock.monotonic_s()
        self._watcher = watcher
        self._begin()

    def _begin(self) -> None:
        self.phase, self.done, self.total, self.noun = "", 0.0, 0.0, ""
        self.began_s, self.last_s = clock.monotonic_s(), self._watcher.last_s(self.key)

    @property
    def key(self) -> str:
        """What decides how long it takes."""
        return f"{self.what} ({self.like})" if self.like else self.what

    @property
    def quiet(self) -> bool:
        """Whether nothing may disturb it."""
        return self.phase in _QUIET

    def say(self, text: str) -> None:
        """Do something else from now on: the time begins anew, the limit stays."""
        self.over()
        self.what = text
        self._begin()
        self._watcher.changed(self)

    def at(self, done: float, total: float, noun: str = "") -> None:
        """Be so far."""
        self.done, self.total, self.noun = done, total, noun
        self._watcher.changed(self)

    def enter(self, phase: str) -> None:
        """Enter a phase of a measurement."""
        self.phase = phase
        self._watcher.changed(self)

    def over(self) -> None:
        """Have done what it did until now; what took its time is told by the steps inside, if there are any."""
        if not self.frame and not self.has_inner:
            self._watcher.took(self.key, clock.monotonic_s() - self.began_s)

    def words(self) -> str:
        """Return what it does: `measuring sd15 unet, process 2 of 3, warm-up`."""
        return f"{self.what}, {_PHASES.get(self.phase, self.phase)}" if self.phase else self.what

    def far(self, now_s: float) -> str:
        """Return how far it is: `43 %, 12 s of about 28 s`; from half of its limit on, that limit."""
        told = []
        if self.total:
            told.append(
                f"{self.noun} {self.done:,.0f} of {self.total:,.0f}"
                if self.noun
                else f"{100 * self.done / self.total:.0f} %"
            )
        if self.is_late(now_s) and self.limit is not None:
            limit = f"at most {duration(self.limit.seconds)} (-o {self.limit.option}=TIME)"
            told.append(f"{duration(now_s - self.started_s)} of {limit}")
        else:
            gone_s, last_s = now_s - self.began_s, self.last_s
            told.append(duration(gone_s))
            if last_s is not None:
                told[-1] += f" of about {duration(last_s)}" if gone_s <= last_s else f", {duration(last_s)} last time"
        return ", ".join(told)

    def is_late(self, now_s: float) -> bool:
        """Whether half of its limit is over."""
        return self.limit is not None and now_s - self.started_s >= self.limit.seconds / 2

    def left(self, now_s: float) -> str:
        """Return what remains of it: `about 4.0 min left`; empty where nobody knows, or it should be over."""
        left_s = (self.left_s or 0.0) - (now_s - self.started_s)
        return f"{'about' if self.whole else 'more than'} {duration(left_s)} left" if left_s >= 1 else ""


_open: ContextVar[Step | None] = ContextVar("open step", default=None)


class _Here:
    """Who is told of progress in this process."""

    watcher = Watcher()
    teller: Teller | None = None
    told_s = _NEVER_S


def doing() -> Step | None:
    """Return the step in which this is called; None where only a frame is open, or nothing."""
    one = _open.get()
    return None if one is None or one.frame else one


@contextlib.contextmanager
def step(what: str, *, like: str = "", limit: Limit | None = None, frame: bool = False) -> Iterator[Step]:
    """Show that something goes on until the context is left.

    Args:
        what: In words.
        like: What else decides how long it takes, and is not shown.
        limit: When it is ended.
        frame: Whether it only stands in front of the words of others.

    Yields:
        The step, which may be told what it does now and how far it is.
    """
    one = Step(what, _Here.watcher, like=like, limit=limit, frame=frame)
    watcher, token, _Here.told_s = _Here.watcher, _open.set(one), _NEVER_S
    watcher.began(one)
    try:
        yield one
        one.over()
    finally:
        _open.reset(token)
        watcher.ended(one)


def say(text: str) -> None:
    """Say what the step does from now on, in which this is called; nothing outside of any."""
    teller: Any = _Here.teller or _open.get()
    if teller is not None:
        teller.say(text)


def at(done: float, total: float, noun: str = "") -> None:
    """Say how far it is: a share of `total`, or with a noun `step 12 of 50`. It may be called as often as one likes.

    Nothing of it is sent while calls are timed: do not call it there.
    """
    teller, now_s = _Here.teller or _open.get(), clock.monotonic_s()
    if teller is not None and not 0 <= now_s - _Here.told_s < _AT_MOST_EVERY_S:
        _Here.told_s = now_s
        teller.at(done, total, noun)


@contextlib.contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Let another watcher be told of the steps of this process."""
    before, _Here.watcher = _Here.watcher, watcher
    try:
        yield
    finally:
        _Here.watcher = before


def told_by(teller: Teller | None) -> None:
    """Let progress of this process, a worker, be told to the suite."""
    _Here.teller, _Here.told_s = teller, _NEVER_S
