"""What takes minutes says so while it does, and when it will be ended."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from pytest_sdperf.core import clock
from pytest_sdperf.core.units import duration

EVERY_S = 60.0
SIGN = "still "
"""How every sign of life begins."""


@contextlib.contextmanager
def signs_of_life(
    what: str, say: Callable[[str], None], *, limit_s: float | None, last_s: float | None = None
) -> Iterator[Callable[[str], None]]:
    """Say once a minute what a step of a build does, since when, and when it will be ended.

    It is said before the limit strikes, too, however soon that is.

    Args:
        what: What it does at first: `compiling sd15 unet`.
        say: Prints one line of progress.
        limit_s: After this the step is ended, by whoever runs it; None if it never is.
        last_s: How long it took last time; None where nobody knows.

    Yields:
        A function that takes what the step does from now on, and says it.
    """
    began_s, over, doing = clock.monotonic_s(), threading.Event(), [what]

    def speak() -> None:
        while not over.wait(EVERY_S if limit_s is None else min(EVERY_S, limit_s / 2)):
            told = f"{SIGN}{doing[0]}: {duration(clock.monotonic_s() - began_s)} so far"
            told += f", {duration(last_s)} last time" if last_s is not None else ""
            end = limit_s and f"; after {duration(limit_s)} it is ended and its case is INVALID (sdperf_build_timeout)"
            say(f"{told}{end or ''}")

    def hear(text: str) -> None:
        doing[0] = text
        say(text)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield hear
    finally:
        over.set()
        speaker.join()
