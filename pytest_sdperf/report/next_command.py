"""The last line of a report: what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_sdperf.cases.options.flags import OPTIONS
from pytest_sdperf.cases.options.other_side import SIDES
from pytest_sdperf.checks.ab.pairs import SIDE_A_DEFECT, SIDE_A_DISAGREES
from pytest_sdperf.checks.judging.fitness import DRIVER_CHANGED
from pytest_sdperf.checks.pipelines.judging.latency import BASELINE_SHARED
from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.doubts import disturbance, doubt
from pytest_sdperf.checks.reporting.gates import LEVELS
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.stats.bounds import SESSIONS_FOR_SPREAD
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.report import typed
from pytest_sdperf.report.run_info import RunInfo

UPDATE = "--sdperf-update-baselines"
RESUME, PLAN, LAST_FAILED = "--sdperf-resume", "--sdperf-plan", "--lf"
MOST = "--sdperf-max-processes"
PROCESSES, BATCH_SIZE = "--sdperf-processes", "--sdperf-batch-size"
JSON = "--sdperf-json"
IN_PROCESS = "sdperf_inprocess"
# These have a short name too (`--max-processes`), which a project that owns its command line may use.
SHORTENED = frozenset(option.long for option in OPTIONS if option.short)
# What says where a run keeps its files, by either of its names -> the same option of `sdperf baselines`.
PLACES = {"baselines": "--baselines", "state-dir": "--state-dir"}
# What makes the second side of an A/B, by either name of an option.
SIDE_B = frozenset(f"--{start}{name}" for start in ("sdperf-", "") for name in SIDES)
# Codes of what no further process makes known.
UNSEEN, OUT_OF_MEMORY = "-not-seen", "out-of-memory"


def next_lines(reports: Sequence[CaseReport], run: RunInfo, *, width: int) -> Iterator[Line]:
    """Yield why and, as the last line, the command; a command is never broken, so that it can be copied."""
    why, command = _rest(reports, run) or _next(reports, run)
    yield from wrapped(f"next, {why}:", width=width)
    yield Line(command, ("bold",))


def _rest(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str] | None:
    """Return how to go on with what this run did not come to; None if it came to everything."""
    if run.resumable:
        return f"measure the rest, and keep {plural(run.resumable, 'measured case')}", _with(run.command, RESUME)
    if any(report.outcome is Outcome.NOT_MEASURED for report in reports):
        return "see what the rest needs", _with(run.command, PLAN)
    if run.interrupted and not run.results:
        return "run it again, to its end", run.command
    return None


def _next(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str]:
    outcomes = [report.outcome for report in reports if report.outcome is not None]
    broken = any(report.problem for report in reports)
    if not outcomes and not broken:
        return "see what these options collect", _collect(run)
    unlike = _another_driver(reports, run) or _side_a(reports, run)
    if unlike and not any(outcome.wrong for outcome in outcomes):
        return unlike
    worst = max(outcomes, key=lambda outcome: outcome.rank, default=Outcome.PASSED)
    if worst in (Outcome.FAILED, Outcome.INVALID) and (advised := _advised(reports, worst, run)):
        return advised
    alone = run.remembers_failures
    for failed, why in (
        (Outcome.FAILED in outcomes, f"look at what failed{' alone' if alone else ''}, before any time"),
        (Outcome.REGRESSED in outcomes, f"measure what regressed again{', alone' if alone else ''}"),
        (Outcome.INVALID in outcomes, "measure what was invalid again, once its reason is gone"),
        (broken, "run what failed again, once its reason is gone"),
    ):
        if failed:
            return why, _failed_again(run)
    undecided = [v for report in reports for v in report.verdicts if v.outcome is Outcome.INCONCLUSIVE]
    if undecided and (settled := _beyond_processes(reports, {verdict.code for verdict in undecided}, run)):
        return settled
    open_metrics = {verdict.metric for verdict in undecided}
    judged = {verdict.metric for report in reports for verdict in report.verdicts}
    if run.pairs or (judged and judged <= _checks(reports)):
        return _without_baseline(reports, open_metrics, run)
    return _onwards(reports, open_metrics, run)


def _another_driver(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str] | None:
    """Return how to start anew where nothing but the driver has made cases INVALID; None elsewhere."""
    codes = {verdict.code for report in reports for verdict in report.verdicts if verdict.outcome is Outcome.INVALID}
    if codes != {DRIVER_CHANGED} or run.in_process or run.interrupted:
        return None
    results = f" {run.results}" if run.results else ""
    return "start anew under this driver", f'sdperf baselines accept{results} --re-anchor --reason="new driver"'


def _side_a(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str] | None:
    """Return how to look at side A of an A/B where that is what is wrong; None elsewhere."""
    codes = {verdict.code for report in reports for verdict in report.verdicts}
    alone = typed.without(run.command, SIDE_B)
    if not codes & {SIDE_A_DEFECT, SIDE_A_DISAGREES} or alone == run.command:
        return None
    again = _with(alone, LAST_FAILED) if run.remembers_failures else alone
    return "look at side A alone, which is what is wrong", again


def _beyond_processes(reports: Sequence[CaseReport], codes: set[str], run: RunInfo) -> tuple[str, str] | None:
    """Return what follows where measuring more would settle nothing; None where it may settle something."""
    if codes == {OUT_OF_MEMORY} and all(report.case.batch_size == 1 for report in reports):
        return "see how much memory it took before", _with(run.command, PLAN)
    if codes == {OUT_OF_MEMORY}:
        return "compare something smaller, which fits", _with(run.command, f"{BATCH_SIZE}=1")
    if all(code.endswith(UNSEEN) for code in codes):
        return "see which libraries could tell what was not seen", "sdperf doctor"
    return None


def _without_baseline(reports: Sequence[CaseReport], open_metrics: set[str], run: RunInfo) -> tuple[str, str]:
    """Return what follows where nothing that was judged is ever stored."""
    if not open_metrics:
        return _keep(reports, run)
    if run.pairs:
        return "measure more pairs, on a quieter machine", _more(run, MOST, 24)
    return _again(reports, open_metrics, run)


def _keep(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str]:
    """Return what becomes of results that are as they were; only what was measured can be judged again."""
    file = _results(run)
    if file and not any(report.measured for report in reports):
        return "see what else these options collect", _collect(run)
    if file:
        return "judge these results again, on any machine", shlex.join(["sdperf", "gate", file, f"--gpu={run.slug}"])
    return "keep these results in a file", _with(run.command, f"{JSON}=results.json")


def _onwards(reports: Sequence[CaseReport], open_metrics: set[str], run: RunInfo) -> tuple[str, str]:
    """Return what follows where nothing went wrong."""
    if run.in_process:
        return "measure in processes of their own", typed.without_ini(run.command, IN_PROCESS)
    return _look(run) if run.updating else _accepting(reports, open_metrics, run)


def _accepting(reports: Sequence[CaseReport], open_metrics: set[str], run: RunInfo) -> tuple[str, str]:
    """Return what follows where results may be accepted: only what needs no reason is suggested."""
    codes = {verdict.code for report in reports for verdict in report.verdicts}
    if BASELINE_SHARED in codes:
        return "measure the baseline again where nothing else runs, with what it was measured with", run.command
    new = [report for report in reports if report.has(Outcome.NEW, Outcome.IMPROVED)]
    fresh = [report for report in new if not doubt(report)]
    if fresh:
        return f"accept {_results_told(len(fresh), of=len(new))}", _accept(fresh, run)
    if any(map(disturbance, reports)):
        return "measure again where nothing else runs, before you accept anything", run.command
    if open_metrics:
        return _again(reports, open_metrics, run)
    if run.results:
        return "accept these results", _accept(reports, run)
    timed = [report for report in reports if any(map(report.verdict, LEVELS))]
    missing = SESSIONS_FOR_SPREAD - run.sessions
    if timed and missing > 0 and not all(map(doubt, timed)):
        return f"add this session to the baseline ({missing} more and it knows how days differ)", _accept(timed, run)
    return _keep(reports, run)


def _results_told(count: int, *, of: int) -> str:
    if count < of:
        return f"{count} of {of} results that are new or improved; the others need a reason, or to be measured again"
    return f"{plural(count, 'result')} that are new or improved" if count > 1 else "the result"


def _accept(reports: Sequence[CaseReport], run: RunInfo) -> str:
    """Return what accepts what this run found, where it looks for baselines; counts are in no file but its results."""
    counted = [report for report in reports if report.measurement is None]
    file = run.results or (_results(run) if counted else "")
    if len(counted) == len(reports) and not file:
        return _with(run.command, UPDATE)
    words = ["sdperf", "baselines", "accept", *([file] if file else [])]
    if run.results:
        folder = str(Path(run.baselines).parent)
        return shlex.join(words if folder == "baselines" else [*words, f"--baselines={folder}"])
    for name, option in PLACES.items():
        words += [
            f"{option}={value}" for value in list(typed.values_of(run.command, f"--sdperf-{name}", f"--{name}"))[-1:]
        ]
    return shlex.join(words)


def _results(run: RunInfo) -> str:
    """Return the file of results that the run wrote; empty for none."""
    return next(typed.values_of(run.command, JSON, _short(JSON)), "")


def _failed_again(run: RunInfo) -> str:
    """Return what runs what failed; everything, where pytest does not know what did."""
    return _with(run.command, LAST_FAILED) if run.remembers_failures else run.command


def _collect(run: RunInfo) -> str:
    return _with(_with(run.command, "--collect-only"), "-q")


def _look(run: RunInfo) -> tuple[str, str]:
    """Return how to see what was accepted: `git diff` fails or shows nothing where git does not know the file."""
    if run.tracked:
        return "review what was accepted", f"git diff {shlex.quote(run.baselines)}"
    if not run.slug:
        return "see what is stored", f"python -m json.tool {shlex.quote(run.baselines)}"
    return "see what is stored", f"sdperf baselines list --baselines={shlex.quote(str(Path(run.baselines).parent))}"


def _again(reports: Sequence[CaseReport], metrics: set[str], run: RunInfo) -> tuple[str, str]:
    """Return what may settle metrics that are INCONCLUSIVE."""
    if metrics <= _checks(reports):
        return _advised(reports, Outcome.INCONCLUSIVE, run) or _keep(reports, run)
    again = {OURS[name].again if name in OURS else "" for name in metrics}
    if len(again) == 1 and (why := again.pop()):
        return why, run.command
    return "measure with more processes, on a quieter machine", _more(run, PROCESSES, 10)


def _checks(reports: Sequence[CaseReport]) -> frozenset[str]:
    """Return the names of registered checks of which nothing is stored, which are the metrics of their verdicts."""
    found = [(name, check) for report in reports for name, check in report.checks.items()]
    return frozenset(name for name, _ in found) - {name for name, check in found if check.counted is not None}


def _advised(reports: Sequence[CaseReport], outcome: Outcome, run: RunInfo) -> tuple[str, str] | None:
    """Return what registered checks advise; None where something else has this outcome too, or it is typed already."""
    found = [(report, verdict) for report in reports for verdict in report.verdicts if verdict.outcome is outcome]
    advices = {
        report.checks[verdict.metric].advice if verdict.metric in report.checks else None for report, verdict in found
    }
    advice = advices.pop() if len(advices) == 1 else None
    if advice is None:
        return None
    name, _, value = advice.option.partition("=")
    command = _with(run.command, advice.option)
    typed_already = value in typed.values_of(run.command, name, _short(name)) if value else command == run.command
    return None if typed_already else (advice.why, command)


def _more(run: RunInfo, name: str, usual: int) -> str:
    """Return the command with a larger number: the usual one, or twice as many as were asked for."""
    given = [int(value) for value in typed.values_of(run.command, name, _short(name)) if value.isdecimal()]
    return _with(run.command, f"{name}={2 * given[-1] if given and given[-1] >= usual else usual}")


def _with(command: str, option: str) -> str:
    """Add an option to a command; another value of the same option, by either of its names, makes room for it."""
    name = option.partition("=")[0]
    return typed.with_option(command, option, also=_short(name) if name in SHORTENED else "")


def _short(name: str) -> str:
    return name.replace("--sdperf-", "--")
