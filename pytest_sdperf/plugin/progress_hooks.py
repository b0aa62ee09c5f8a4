"""pytest's hooks that show what a run does: where it is shown, which test it is, what remains."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from pytest_sdperf.cases.items import uses_our_case
from pytest_sdperf.core import clock, progress
from pytest_sdperf.plugin.display import Cleared, Display, Handed, InPlace, Lines, Output
from pytest_sdperf.plugin.durations import Durations
from pytest_sdperf.plugin.run import Run

NAME = "sdperf-progress"
_FOLDER = "sdperf_progress"  # key of what pytest-xdist hands to its workers
_SILENT = -2  # a verbosity: of -q -q


class ProgressHooks:
    """Registered under `NAME` for the length of a run."""

    def __init__(self, config: pytest.Config, run: Run, say: Callable[[str], None]) -> None:
        self._config, self._say = config, say
        self._is_worker = hasattr(config, "workerinput")
        self._end = contextlib.ExitStack()
        self._display = Display(lambda: self._output(run), Durations(run))
        self._end.enter_context(progress.watched_by(self._display))
        self._end.callback(self._display.close)
        self._items: Sequence[pytest.Item] = ()
        self._number = 0

    def _output(self, run: Run) -> Output:
        """Return where steps are shown: in place where pytest itself has colours, in a terminal."""
        if self._is_worker:
            handed = self._config.workerinput  # type: ignore[attr-defined]
            return Handed(Path(handed[_FOLDER], f"{handed['workerid']}.json")) if _FOLDER in handed else Output()
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self._config.getoption("verbose") <= _SILENT:
            return Output()
        terminal = self._config.get_terminal_writer()
        if terminal.hasmarkup and reporter.isatty and not run.settings.in_process:  # where a debugger may ask
            line = InPlace(terminal._file)  # noqa: SLF001 - nothing else stands before all that pytest writes
            terminal._file = Cleared(terminal._file, line)  # noqa: SLF001 - as above
            if self._config.getoption("capture") == "no":  # tests print there themselves
                self._end.enter_context(contextlib.redirect_stdout(Cleared(sys.stdout, line)))
                self._end.enter_context(contextlib.redirect_stderr(Cleared(sys.stderr, line)))
            return line
        if self._config.getoption("dist", "no") != "no":  # its tests end while this is said
            return Lines(lambda text: reporter.write(f"\n{text}\n", flush=True))
        return Lines(self._say)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist where it hands over what it does."""
        if self._display.workers is None:
            self._display.workers = Path(self._end.enter_context(tempfile.TemporaryDirectory(prefix="sdperf-")))
        node.workerinput[_FOLDER] = str(self._display.workers)
        self._display.start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the tests, in the order in which they run."""
        self._items = session.items

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Show which test it is, and what remains as far as anybody knows how long the tests took last time."""
        self._number += 1
        if not uses_our_case(item):
            return (yield)
        began_s, durations = clock.monotonic_s(), self._display.durations
        with nullcontext() if self._is_worker else progress.step("test", frame=True) as frame:
            if frame is not None:
                last = [durations.last_s(one.nodeid) for one in self._items[self._number - 1 :]]
                frame.left_s, frame.whole = sum(one for one in last if one is not None), None not in last
                frame.at(self._number, len(self._items))
            done = yield
        durations.took(item.nodeid, clock.monotonic_s() - began_s)
        return done

    def pytest_unconfigure(self) -> None:
        """Show nothing any more."""
        self._end.close()


def speaker(config: pytest.Config) -> Callable[[str], None]:
    """Return what prints one line, also while pytest captures the output of a test; nothing in a worker of xdist."""
    lock = threading.Lock()  # builds side by side speak from threads

    def say(text: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or hasattr(config, "workerinput"):  # nobody reads what the reporter of a worker writes
            return
        capture = config.pluginmanager.get_plugin("capturemanager")
        with lock, capture.global_and_fixture_disabled() if capture else nullcontext():
            reporter.ensure_newline()
            reporter.write_line(text)

    return say
