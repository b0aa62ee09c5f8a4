"""pytest's hooks of a run that tests the verdicts themselves, instead of a build."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from pytest_sdperf import __version__
from pytest_sdperf.cases.items import case_of, is_skipped
from pytest_sdperf.cases.purposes import measures
from pytest_sdperf.checks.judging.fitness import ended
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.run_status import NOTHING_JUDGED
from pytest_sdperf.checks.reporting.line import Line
from pytest_sdperf.core import clock, progress
from pytest_sdperf.core.errors import OptionError, SdperfError
from pytest_sdperf.core.labels import in_words
from pytest_sdperf.core.machine.device_choice import describe
from pytest_sdperf.core.units import duration, plural
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.selftest.measuring import Measured, measure_selftest
from pytest_sdperf.plugin.selftest.records import Archive, SelfTestRun, SelfTests, with_run
from pytest_sdperf.plugin.selftest.rows import rows_of
from pytest_sdperf.plugin.selftest.table import selftest_lines, shortfalls
from pytest_sdperf.plugin.session import Session, session_of

NAME = "sdperf-selftester"
# Without a time budget. On a GPU they take a few seconds each.
PROCESSES = 60
# What judging may take at the end.
REPORT_S = 45.0
FAILED = 1
_NOT_JUDGED = (
    "Nothing was judged: too few processes for a single comparison. Type it again with more time, for example "
    "--sdperf-time-budget=8m, or with fewer processes to a comparison, --sdperf-max-processes=N."
)


class SelfTester:
    """Registered under `NAME` instead of the reporter.

    Raises:
        OptionError: Tests are to be spread over processes.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started_s = clock.wall_s()
        self._status = 0
        if config.getoption("dist", "no") != "no":
            raise OptionError(
                "--sdperf-selftest and -n do not go together: its processes take turns on one device. Leave -n out."
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Measure one of the selected cases against itself, and run no test."""
        if session.testsfailed or self._config.option.collectonly:
            return None
        try:
            self._run(session_of(self._config), case_under_test(session.items))
        except SdperfError as error:
            raise pytest.UsageError(str(error)) from error
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Set the exit status."""
        if self._status:
            session.exitstatus = self._status

    def _run(self, session: Session, case: Case) -> None:
        case = session.completed(case)
        archive, settings = session.self_tests, session.run.settings
        policy = Policy.of(settings, device_kind=session.run.device().kind)
        tested, problem = self._measured(session, case, archive.cases().get(case.key))
        if tested is None:
            self._end([problem or self._no_time()], NOTHING_JUDGED)
            return
        with progress.step(f"judging {plural(sum(one.processes for one in tested.runs), 'process', 'processes')}"):
            tested = msgspec.structs.replace(tested, rows=rows_of(tested, policy=policy))
        archive.keep(tested)
        if settings.update_baselines:
            archive.accept(case.key)
        self._report(session, archive, tested, policy)
        wrong = list(shortfalls(tested.rows, policy=policy))
        invalid = problem or ("" if tested.rows else _NOT_JUDGED)
        self._end([invalid] if invalid else [], NOTHING_JUDGED)
        self._end(wrong, FAILED)
        if not wrong and not invalid:
            self._write(Line("PASSED no false alarm, and no goal that is surely missed", ("green",)))

    def _measured(self, session: Session, case: Case, before: SelfTests | None) -> tuple[SelfTests | None, str]:
        """Measure for as long as there is time; return all runs with this one, and why it ended early."""
        if not self._going_on(0, 0.0):
            return before, ""
        runner = session.runner(case)
        builds = {name: build.key for name, build in runner.builds().items()}
        date, tested, problem = clock.today_utc(), before, ""
        # The schedule goes on where the last run left it.
        first = sum(one.processes for one in before.runs) if before else 0
        with session.context.turns.alone(f"the self-test of {in_words(case)}"):
            for measured in measure_selftest(runner, first=first, going_on=self._going_on):
                problem = _problem(measured)
                if problem:
                    break
                # Kept at once: a run that is ended from outside has not been for nothing.
                tested = with_run(before, case, _run_of(measured, builds, date))
                session.self_tests.keep(tested)
        return tested, problem

    def _going_on(self, count: int, slowest_s: float) -> bool:
        budget_s = session_of(self._config).run.settings.time_budget_s
        if not budget_s:
            return count < PROCESSES
        return clock.wall_s() - self._started_s + slowest_s + REPORT_S < budget_s

    def _no_time(self) -> str:
        budget_s, took_s = session_of(self._config).run.settings.time_budget_s, clock.wall_s() - self._started_s
        return (
            f"Nothing was measured: {duration(took_s)} of a time budget of {duration(budget_s)} are gone, and "
            f"{duration(REPORT_S)} are kept for the report. What was built is in the cache; type it again with more "
            f"time, for example --sdperf-time-budget=8m."
        )

    def _report(self, session: Session, archive: Archive, tested: SelfTests, policy: Policy) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None:
            return
        terminal.section("sdperf self-test")
        width = self._config.get_terminal_writer().fullwidth
        device, accepted = describe(session.run.device()), session.run.settings.update_baselines
        for line in selftest_lines(tested, device=device, policy=policy, width=width):
            self._write(line)
        self._write(Line())
        self._write(Line(f"kept in {archive.accepted if accepted else archive.own}"))

    def _end(self, problems: Sequence[str], status: int) -> None:
        """Print why the self-test has not passed; the last status that is given is the exit status."""
        for problem in problems:
            self._status = status
            self._write(Line(f"{'FAILED' if status == FAILED else 'INVALID'} {problem}", ("red",)))

    def _write(self, line: Line) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(line.text, **line.markup)


def case_under_test(items: Sequence[pytest.Item]) -> Case:
    """Return the case that is measured: of the first engine the UNet, if there is one, at its last optimization.

    Raises:
        OptionError: No test that measures is selected.
    """
    cases = [case for item in items if measures(item) and not is_skipped(item) and (case := case_of(item))]
    if not cases:
        raise OptionError(
            "--sdperf-selftest measures the case of a test, and none is selected that measures on this machine. Type "
            "pytest suites --sdperf-selftest, with --sdperf-engine=NAME for one of your engines."
        )
    engine = [case for case in cases if _engine(case) == _engine(cases[0])]
    first = next((case for case in engine if case.component == "unet"), engine[0])
    return [case for case in engine if _but_optimization(case) == _but_optimization(first)][-1]


def _engine(case: Case) -> tuple[object, ...]:
    return case.engine, case.engine_options


def _but_optimization(case: Case) -> tuple[object, ...]:
    return case.model, case.component, case.batch_size, case.fuser


def _problem(measured: Measured) -> str:
    """Say why what was measured cannot be used; empty if it can."""
    measurement = measured.measurement
    if measurement.health:
        return f"The machine was not fit to be measured: {'; '.join(one.rstrip('.') for one in measurement.health)}."
    return ended(measurement.failure).text if measurement.failure else ""


def _run_of(measured: Measured, builds: dict[str, str], date: str) -> SelfTestRun:
    return SelfTestRun(
        date=date,
        suite=__version__,
        subject=dict(measured.measurement.subject),
        builds=builds,
        medians_s=dict(measured.medians_s),
        obtained=dict(measured.obtained),
        waited=dict(measured.waited),
    )
