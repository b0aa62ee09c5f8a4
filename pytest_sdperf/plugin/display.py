"""What a person sees of the steps that go on: one line that is rewritten, or without a terminal a line a minute."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from pytest_sdperf.core import clock
from pytest_sdperf.core.progress import Step, Watcher
from pytest_sdperf.plugin.durations import LONG_S, Durations
from pytest_sdperf.plugin.shown import Shown

EVERY_S = 60.0
"""Between two lines where there is no terminal."""
TICK_S = 1.0
QUIET_S = 10.0
"""Between two looks while calls are timed."""

# The cursor stays where output goes on: everything behind it is the status line, whoever has printed meanwhile. A line
# below it is made first, by a scroll at the lower edge.
_CLEAR = "\x1b[J"
_DRAW = f"{_CLEAR}\x1bD\x1b[A\x1b7\x1b[B\r%s\x1b8"


def _others(shown: Sequence[Shown]) -> str:
    """Say how many go on beside the one that is shown."""
    return f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""


class Output:
    """Where steps are shown; here they are not."""

    def show(self, shown: Sequence[Shown], now_s: float) -> None:
        """Show them, the oldest first."""

    def clear(self) -> None:
        """Take away what would stand in the way of other output."""

    def close(self) -> None:
        """Show nothing any more."""


class InPlace(Output):
    """One line of a terminal.

    Args:
        terminal: Its stream; what else is written to it goes through `cleared`.
    """

    def __init__(self, terminal: TextIO) -> None:
        # A descriptor of its own: that of the stream leads elsewhere while pytest captures what a test prints.
        self._to = os.dup(terminal.fileno())
        self._is_drawn = False
        self.lock = threading.RLock()

    def show(self, shown: Sequence[Shown], now_s: float) -> None:
        """Show the step that has gone on longest, once that is a second."""
        with self.lock, contextlib.suppress(OSError):  # the terminal is gone
            if not shown or not (self._is_drawn or now_s - shown[0].since_s >= LONG_S):
                self.clear()
                return
            width = (os.get_terminal_size(self._to).columns or 80) - 1
            others = _others(shown)
            self._write(_DRAW % (shown[0].within(width - len(others)) + others))
            self._is_drawn = True

    def clear(self) -> None:
        """Take the line away."""
        with self.lock:
            if self._is_drawn:
                self._is_drawn = False
                self._write(_CLEAR)

    def close(self) -> None:
        """Take it away for good."""
        self.clear()
        os.close(self._to)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            os.write(self._to, text.encode(errors="replace"))


class Cleared:
    """A stream that takes the status line away before it writes."""

    def __init__(self, stream: TextIO, line: InPlace) -> None:
        self._stream, self._line = stream, line

    def write(self, text: str) -> int:
        """Write at once: what waits in a buffer would come between."""
        with self._line.lock:
            self._line.clear()
            written = self._stream.write(text)
            self._stream.flush()
            return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Lines(Output):
    """A line a minute while something goes on, and one when half of a limit is over.

    Args:
        say: Prints a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told_s: float | None = None
        self._warned: set[tuple[str, float]] = set()

    def show(self, shown: Sequence[Shown], now_s: float) -> None:
        """Say what has gone on longest."""
        if not shown:
            self._told_s = None
            return
        late = [one for one in shown if one.late and (one.what, one.since_s) not in self._warned]
        self._warned.update((one.what, one.since_s) for one in late)
        since_s = shown[0].since_s if self._told_s is None else self._told_s
        for one in late or (shown[:1] if now_s - since_s >= EVERY_S else []):
            self._told_s = now_s
            self._say(f"{one.line}{_others(shown)}")
        if self._told_s is None:
            self._told_s = since_s


class Handed(Output):
    """A file from which the process that started this worker of pytest-xdist shows the steps.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._shown = path, ""

    def show(self, shown: Sequence[Shown], now_s: float) -> None:
        """Write them; they are read at any time."""
        told, before = json.dumps([asdict(one) for one in shown]), self._shown
        if told == before:
            return
        self._shown = told
        with contextlib.suppress(OSError):
            aside = self._path.with_suffix(".new")
            aside.write_text(told, encoding="utf-8")
            aside.replace(self._path)

    def close(self) -> None:
        """Have no steps any more."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class Display(Watcher):
    """Shows the steps of this process, and those of workers of pytest-xdist.

    Args:
        find: Return where they are shown: asked when the first begins.
        durations: How long they took last time.

    Attributes:
        output: Where they are shown.
        durations: How long they took last time.
        workers: Folder in which workers hand over what they do; None where there are none.
    """

    def __init__(self, find: Callable[[], Output], durations: Durations) -> None:
        self._find, self.durations = find, durations
        self.output = Output()
        self.workers: Path | None = None
        self._steps: list[Step] = []
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._looked_s = float("-inf")
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look every second from now on; a run without steps needs no thread."""
        with self._lock:
            if self._thread is None:
                self.output = self._find()
                self._thread = threading.Thread(target=self._look, name="sdperf-progress", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Show nothing any more, and keep how long everything took."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.output.close()
        self.durations.keep()

    def _look(self) -> None:
        while not self._over.wait(TICK_S):
            self.tick()

    def tick(self) -> None:
        """Show how far it is now; less often while calls are timed."""
        with self._lock:
            now_s = clock.monotonic_s()
            if now_s - self._looked_s >= QUIET_S or not any(step.quiet for step in self._steps):
                self._show(now_s)

    def began(self, step: Step) -> None:
        """Show it from the next second on."""
        self.start()
        with self._lock:
            self._steps.append(step)

    def changed(self, step: Step) -> None:
        """Leave it to the next second."""

    def ended(self, step: Step) -> None:
        """Take it away."""
        with self._lock:
            self._steps.remove(step)
            if all(one.frame for one in self._steps):
                self.output.clear()
            if not self._steps:
                self.output.show([], clock.monotonic_s())

    def last_s(self, key: str) -> float | None:
        """Return how long it took last time."""
        return self.durations.last_s(key)

    def took(self, key: str, seconds: float) -> None:
        """Remember how long a long step took."""
        if seconds >= LONG_S:
            self.durations.took(key, seconds)

    def _show(self, now_s: float) -> None:
        self._looked_s = now_s
        self.output.show([*self._own(now_s), *self._of_workers()], now_s)

    def _own(self, now_s: float) -> list[Shown]:
        frame = next((step for step in self._steps if step.frame), None)
        front = "" if frame is None else frame.what + (f" {frame.done:.0f} of {frame.total:.0f}" if frame.total else "")
        rest = "" if frame is None else frame.left(now_s)
        outer = {id(step.outer) for step in self._steps}
        shown = [
            Shown(step.words(), step.far(now_s), front, rest, step.started_s, step.is_late(now_s))
            for step in self._steps
            if not step.frame and id(step) not in outer
        ]
        return sorted(shown, key=lambda one: one.since_s)

    def _of_workers(self) -> list[Shown]:
        if self.workers is None:
            return []
        found = []
        for path in self.workers.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                found += [Shown(**{**one, "front": path.stem}) for one in json.loads(path.read_text(encoding="utf-8"))]
        return sorted(found, key=lambda one: one.since_s)
