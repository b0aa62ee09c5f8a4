"""pytest's hooks that follow the tests of a run: record, deliver, conclude, print."""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import pytest

from pytest_sdperf.cases.items import case_of, is_skipped, narrows, uses_our_case
from pytest_sdperf.cases.purposes import measures, purpose_of
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.errors import SdperfError, WorkerError
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin import time_budget
from pytest_sdperf.plugin.attempts import check_first
from pytest_sdperf.plugin.conclusion import conclude, summary_lines
from pytest_sdperf.plugin.delivery import Recorder, attach, deliver_due, recorded, take_due, verdict_of
from pytest_sdperf.plugin.plan.builds import builds_of_run
from pytest_sdperf.plugin.preparation import BuildRequest, prepare
from pytest_sdperf.plugin.run_results import Results
from pytest_sdperf.plugin.session import Session, session_of

NAME = "sdperf-reporter"
_COLLECTION = "sdperf_collection"
NOT_DELIVERED = "verdict, which gave way to the failure above"
TIGHT = (
    "the cache {} has no room for all builds: what is missing is built when its test begins, and what was used longest "
    "ago goes"
)
_ENDED = pytest.StashKey[bool]()  # by an error in a fixture, which is a verdict
DOOR_FAILED = 3  # pytest's own status for an internal error: results could not be kept


class Reporter:
    """Registered under `NAME` for the length of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._results = Results(remembers_failures=config.pluginmanager.hasplugin("cacheprovider"))
        self._problem = ""
        self._told: dict[str, str] = {}  # text of an error -> id of the first test that it ended

    @property
    def _is_worker(self) -> bool:
        """Whether this process is a worker of pytest-xdist, whose controller concludes."""
        return hasattr(self._config, "workerinput")

    @property
    def _has_nothing(self) -> bool:
        """Whether there is nothing to conclude from: no test asked for a verdict, and nothing was altered."""
        altered = session_of(self._config).run.settings.altered and not self._config.option.collectonly
        return not (self._results.reports or self._results.nothing_judged or altered)

    @property
    def _command(self) -> str:
        arguments = [str(argument) for argument in self._config.invocation_params.args]
        return shlex.join(["pytest", *arguments])

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember that tests were taken away."""
        self._results.deselected |= bool(items)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the tests that are about to measure, once it is known that they can."""
        benches = list(filter(measures, session.items))
        self._results.collected = session_of(self._config).collected
        if not self._config.option.collectonly:
            self._results.benches = {item.nodeid: case for item in benches if (case := case_of(item))}
            self._results.asked = {item.nodeid for item in session.items if uses_our_case(item)}
            self._results.cases = {item.nodeid: case for item in session.items if (case := case_of(item))}
            if not all(map(is_skipped, benches)):
                self._results.complete(session_of(self._config).completed)
        self._results.deselected |= narrows(self._config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Build what the selected tests need before the first of them measures."""
        distributed = self._is_worker or self._config.getoption("dist", "no") != "no"
        if not distributed and not self._config.option.collectonly and not session.testsfailed:
            shared = session_of(self._config)
            needs = needs_of(session.items)
            check_cached(shared, needs)
            ahead, room = functools.partial(time_budget.builds_ahead, self._config), shared.cache.make_room
            prepare(shared, needs, going_on=lambda: ahead() and room(own=False))
            if needs and not room(own=False):
                shared.say(TIGHT.format(shared.run.settings.cache_dir))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let builds go that were used longest ago, where there is no room for more."""
        done = yield
        if case_of(item) is not None:
            session_of(self._config).cache.make_room()
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let a test fail by what was measured for it, also if it is skipped before it begins.

        Where a fixture meets an error that is a verdict on the case, the test fails with that when it is called.
        """
        check_first(item)
        with failing_first(item):
            try:
                return (yield)
            except SdperfError as error:
                if not self._is_verdict(item, error):
                    raise
                item.stash[_ENDED] = True
                return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Deliver the verdicts of a test when it ends: what it asserts by itself comes first."""
        if item.stash.get(_ENDED, False):  # its fixtures are not there
            deliver_due(item)
        try:
            with failing_first(item):
                done = yield
        except SdperfError as error:
            if not self._is_verdict(item, error):
                raise
            done = None
        deliver_due(item)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Deliver what was measured while the test was taken down."""
        done = yield
        deliver_due(item)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach what the test recorded; show an error that is addressed to the user without a traceback."""
        report = yield
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, SdperfError) and report.failed:
            tail = f"\n{error.tail}" if isinstance(error, WorkerError) and error.tail else ""
            report.longrepr = self._once(f"{error}{tail}", item.nodeid)
        if report.when == "call" or not report.passed:
            told = take_due(item)  # what has not been said by now gave way to something of the test's own
            if told and report.failed:
                report.sections.append((NOT_DELIVERED, told))
            attach(report, recorded(item) or self._failed(item, report), error)
        return report

    def _once(self, text: str, nodeid: str) -> str:
        """Return an error, or at which test it was told: what many tests need fails for each of them alike."""
        first = self._told.setdefault(text, nodeid)
        return text if first == nodeid else f"the same error as at {first}"

    def _is_verdict(self, item: pytest.Item, error: SdperfError) -> bool:
        """Whether an error is a verdict on the case of a test; then it is recorded, and due when the test ends."""
        verdict, case = verdict_of(error), self._case_of(item)
        if verdict is None or case is None:
            return False
        told = self._once(f"{verdict.outcome.value}: {verdict.text}", item.nodeid)
        Recorder(item, case).ended(verdict, told)
        return True

    def _failed(self, item: pytest.Item, report: pytest.TestReport) -> CaseReport | None:
        """Return the report of a test that failed before it recorded anything; None where it has no case."""
        case = self._case_of(item)
        return CaseReport(item.nodeid, case) if case is not None and report.failed else None

    def _case_of(self, item: pytest.Item) -> Case | None:
        """Return the case of a test, completed where that is possible; None where it has none."""
        case = case_of(item)
        if case is not None:
            with contextlib.suppress(SdperfError):  # the user's own pipeline may be what fails
                case = session_of(self._config).completed(case)
        return case

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take over what a test found out."""
        if not self._is_worker:
            self._results.add(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of pytest-xdist collected: every worker collects everything."""
        self._results.take_collection(getattr(node, "workeroutput", {}).get(_COLLECTION))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Keep what was measured and set the exit status."""
        if self._is_worker:
            # pytest-xdist adds the attribute to the config of its workers.
            self._config.workeroutput[_COLLECTION] = self._results.collection()  # type: ignore[attr-defined]
        if self._is_worker or self._has_nothing:
            return
        try:
            session.exitstatus = conclude(
                self._results,
                session_of(self._config),
                status=int(exitstatus),
                failed=session.testsfailed,
                stopped=bool(session.shouldstop or session.shouldfail),
                command=self._command,
            )
        except SdperfError as error:
            self._problem = str(error)
            session.exitstatus = DOOR_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report; nothing where no test used our fixtures."""
        if self._is_worker or self._has_nothing:
            return
        terminalreporter.write_sep("=", "sdperf")  # `section` would leave an empty line behind a line of dots
        width = self._config.get_terminal_writer().fullwidth
        lines = summary_lines(
            self._results,
            session_of(self._config),
            command=self._command,
            width=width,
            verbosity=self._config.getoption("verbose"),
        )
        for line in lines:
            terminalreporter.write_line(line.text, **line.markup)
        if self._problem:
            terminalreporter.write_line(f"ERROR: {self._problem}", red=True)


@contextlib.contextmanager
def failing_first(item: pytest.Item) -> Iterator[None]:
    """Let a test fail that is to be skipped, where a verdict of it fails."""
    try:
        yield
    except pytest.skip.Exception:
        deliver_due(item, skipped=True)
        raise


def check_cached(session: Session, needs: Sequence[BuildRequest]) -> None:
    """Check what the cache holds for the tests, side by side."""
    if session.run.settings.in_process or not needs:
        return
    builds, engines = builds_of_run(session), session.run.catalog.engines
    held: set[str] = set()
    for case in dict.fromkeys(need.case for need in needs):
        with contextlib.suppress(Exception):  # whatever it is, the test that needs this meets it again
            engine = engines.get(session.run.request_of(case).engine) if case.engine else None
            held.update(step.entry.key for step in builds.of(case, engine) if step.entry is not None)
    session.cache.check(held, threads=session.cores)


def needs_of(items: Iterable[pytest.Item]) -> list[BuildRequest]:
    """Return what the tests that will run need to have built."""
    needs = []
    for item in items:
        case, purpose = case_of(item), purpose_of(item)
        if case is not None and not is_skipped(item) and purpose.makes:
            needs.append(BuildRequest(case, purpose.checks))
    return needs
