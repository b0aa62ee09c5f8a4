"""The door: hooks of a few lines, and the composition of everything behind them.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from pytest_sdperf.cases import registration
from pytest_sdperf.cases.clashes import check_owners
from pytest_sdperf.cases.items import CASE, case_of, is_skipped, narrows, uses_our_case, uses_our_device
from pytest_sdperf.cases.options.command_line import add_options, shorten_help
from pytest_sdperf.cases.options.marks import MARKER, argument_names, read_marks
from pytest_sdperf.cases.options.reading import typed
from pytest_sdperf.cases.purposes import axes_of, measures, of_fixtures, purpose_of
from pytest_sdperf.core.errors import DeviceMissingError, OnnxFolderError, SdperfError, WeightsError
from pytest_sdperf.core.source_tree import find_suites
from pytest_sdperf.core.tolerances import check_used, overrides_of
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin import (
    attempts,
    benchmark_bridge,
    composition,
    distribution,
    planner,
    progress_hooks,
    recorded,
    removed,
    reporter,
    run,
    selftester,
    time_budget,
)
from pytest_sdperf.plugin import session as sdperf_session
from pytest_sdperf.plugin.fit import check_external
from pytest_sdperf.plugin.fixtures import checks
from pytest_sdperf.report.output_files import check_baselines, check_cache, check_outputs
from pytest_sdperf.report.unused import asked_axes

pytest_plugins = (
    "pytest_sdperf.builtins", "pytest_sdperf.checks.builtins", "pytest_sdperf.plugin.fixtures.cases",
    "pytest_sdperf.plugin.fixtures.measurements",
)  # fmt: skip

_REFUSAL = "sdperf_refusal"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options in their long spelling, before pytest looks for what it is to run."""
    find_suites()
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hook that plug-ins implement."""
    from pytest_sdperf.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Compose the run. Not `trylast`: pytest-benchmark compares machines in its own, and needs the device then."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}({', '.join(argument_names())}): the cases of a test that uses the fixtures of pytest_sdperf (from "
        "pytest_sdperf)",
    )
    with at_the_door():
        this = composition.compose(config)
        fixtures = checks.make_fixtures(this.catalog)
    config.pluginmanager.register(this, run.NAME)
    config.pluginmanager.register(fixtures, checks.NAME)
    say = progress_hooks.speaker(config)
    config.pluginmanager.register(sdperf_session.Session(this, say=say), sdperf_session.NAME)
    config.pluginmanager.register(progress_hooks.ProgressHooks(config, this, say), progress_hooks.NAME)
    config.pluginmanager.register(Watcher(config), "sdperf-watcher")
    config.pluginmanager.register(recorded.Serializer(), "sdperf-serializer")
    config.pluginmanager.register(removed.Removed(config), removed.NAME)
    config.pluginmanager.register(distribution.Distribution(this, config), "sdperf-distribution")
    if this.settings.time_budget_s and not this.settings.self_test:
        config.pluginmanager.register(time_budget.TimeBudget(config), time_budget.NAME)
    with at_the_door():
        config.pluginmanager.register(*_what_runs_tests(config, this))
    if config.option.help:
        shorten_help(config)


def _what_runs_tests(config: pytest.Config, this: run.Run) -> tuple[object, str]:
    """Return the plugin that follows the tests, or does something else in their place."""
    if this.settings.plan:
        return planner.Planner(config), planner.NAME
    if this.settings.self_test:
        return selftester.SelfTester(config), selftester.NAME
    return reporter.Reporter(config), reporter.NAME


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what the run left in temporary folders."""
    if config.pluginmanager.has_plugin(sdperf_session.NAME):
        sdperf_session.session_of(config).close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that uses our fixtures its cases."""
    this = run.run_of(metafunc.config)
    try:
        check_owners(metafunc.definition)
        if not uses_our_case(metafunc.definition):
            return
        marks = read_marks(metafunc.definition.iter_markers(MARKER))
        names = metafunc.fixturenames
        choices = this.choose(axes_of(names), marks, timed=of_fixtures(names).measures)
        choices = this.alteration.cases(choices)
    except (OnnxFolderError, WeightsError) as error:
        # What a folder lacks it lacks for every test: said once, before the first of them.
        this.refused = error
        return
    except SdperfError as error:
        # Alone: pytest would print the traceback of an error that this one comes from.
        raise pytest.fail.Exception(f"{metafunc.definition.nodeid}: {error}", pytrace=False) from None
    skips = [[pytest.mark.skip(reason=choice.skip)] if choice.skip else [] for choice in choices]
    parameters = [pytest.param(choice.case, marks=skip) for choice, skip in zip(choices, skips, strict=True)]
    metafunc.parametrize(CASE, parameters, ids=[choice.id for choice in choices], indirect=True, scope="session")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Let other plugins see that our tests are benchmarks, and none that are run again when they fail."""
    benches = list(filter(measures, items))
    # Before anything is deselected.
    sdperf_session.session_of(config).collected = tuple(filter(None, map(case_of, benches)))
    attempts.exempt(items, config)
    if benchmark_bridge.is_active(config):
        benchmark_bridge.give_clocks(benches)
    only = config.getoption("benchmark_only", default=False)
    with benchmark_bridge.counted_as_benchmarks(benches) if only else nullcontext():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to begin if the selected tests need what is not here."""
    refuse_collected(session)
    ours = [item for item in session.items if case_of(item) or uses_our_device(item)]
    if not ours or session.config.option.collectonly:
        return
    this = run.run_of(session.config)
    if this.settings.plan:
        return  # what is not here is planned all the same
    needy = [item for item in ours if not is_skipped(item) and purpose_of(item).needs_device]
    benches = [item for item in needy if purpose_of(item).measures]
    shared = sdperf_session.session_of(session.config)
    shared.cases = max(len(benches), 1)
    try:
        distribution.check_forked(session.config, ours)
        check_outputs(shared.run.settings)
        check_baselines(shared.run.settings, typed("sdperf_baselines", session.config))
        check_external(shared, ours)
        makers = [item for item in ours if not is_skipped(item) and purpose_of(item).makes]
        if needy or makers:
            check_cache(shared.run.settings.cache_dir)
        this.check_weights([item.nodeid for item in needy if purpose_of(item).executes])
        this.check_torch([item.nodeid for item in makers])
        if needy:
            this.device()
        this.check_engines(case for case in map(case_of, needy) if case)
        measured = [case for case in map(case_of, benches) if case]
        two_sided = [item for item in needy if purpose_of(item).two_sided]
        this.check_other_side(case for case in map(case_of, two_sided) if case)
        for case in filter(None, map(case_of, needy)):
            shared.completed(case)
        if benches:
            benchmark_bridge.check_options(session.config)
            distribution.check_workers(getattr(session.config, "workerinput", {}))
        # Now, and not after an hour of measuring: a file that cannot be trusted, a rule that is never used.
        if needy:
            shared.check_files()
        if benches:
            check_tolerances(shared, measured, session.config)
    except SdperfError as error:
        refuse(session, error)


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Say what is about to be measured, only in runs that use us."""
    if config.option.collectonly or run.run_of(config).settings.plan or not any(map(case_of, items)):
        return []
    return [*run.run_of(config).header(), *attempts.told(items)]


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Put the GPU into pytest-benchmark's files; a CPU is in them already."""
    this = run.run_of(config)
    if this.settings.on_gpu:
        try:
            machine_info[benchmark_bridge.MACHINE_KEY] = benchmark_bridge.machine_entry(this.device())
        except DeviceMissingError:
            return  # the selected tests may not need it; if they do, the collection says so


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_benchmark_compare_machine_info(machine_info: dict[str, Any], compared_benchmark: dict[str, Any]) -> None:
    """Refuse to compare with a file of another device."""
    with at_the_door():
        benchmark_bridge.check_machine(machine_info, compared_benchmark["machine_info"])


class Watcher:
    """Hooks that need the run but are not given a config."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._registered = registration.registrants(config.pluginmanager)
        self._refusal = ""

    def pytest_plugin_registered(self, plugin: object) -> None:
        """Refuse a plug-in that comes after the catalog is closed: a deeper conftest."""
        if hasattr(plugin, registration.HOOK) and plugin not in self._registered:
            raise pytest.Collector.CollectError(registration.too_late(plugin, self._config.rootpath))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over a refusal from a worker of pytest-xdist, which cannot end the run itself."""
        self._refusal = self._refusal or getattr(node, "workeroutput", {}).get(_REFUSAL, "")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Set the exit status."""
        if self._refusal:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why nothing ran."""
        if self._refusal:
            terminalreporter.write_line(f"ERROR: {self._refusal}", red=True)


@contextmanager
def at_the_door() -> Iterator[None]:
    """Turn an error that is addressed to the user into pytest's own."""
    try:
        yield
    except SdperfError as error:
        raise pytest.UsageError(str(error)) from error


def refuse_collected(session: pytest.Session) -> None:
    """End the run for what was found while its tests were collected, also one that only collects."""
    if (refused := run.run_of(session.config).refused) is not None:
        refuse(session, refused)


def refuse(session: pytest.Session, error: SdperfError) -> None:
    """End the run before its first test; a worker of pytest-xdist hands the reason to its controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is None:
        raise pytest.UsageError(str(error)) from error
    output[_REFUSAL] = str(error)
    session.items.clear()


def check_tolerances(shared: sdperf_session.Session, selected: Sequence[Case], config: pytest.Config) -> None:
    """Refuse tolerances of single cases that contradict each other, or that nothing has use for.

    Raises:
        OptionError: There are such.
    """
    for case in selected:
        overrides_of(case, shared.run.rules)
    # Of one file nobody expects that it has every case.
    if not narrows(config) and not any(config.invocation_params.dir.joinpath(name).is_file() for name in config.args):
        check_used(shared.run.rules, shared.collected, asked_axes(shared.run.settings.selection))
