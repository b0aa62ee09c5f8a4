"""The last line of a report: what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_sdperf.judging.artifacts import BUILD_TIME
from pytest_sdperf.judging.fitness import DRIVER_CHANGED
from pytest_sdperf.judging.interleaving import METRIC as INTERLEAVING
from pytest_sdperf.judging.latency import METRIC as LATENCY
from pytest_sdperf.judging.pairs import SIDE_A_DEFECT, SIDE_A_DISAGREES
from pytest_sdperf.judging.replay import METRICS as REPLAYS
from pytest_sdperf.judging.semantics import METRIC as SEMANTICS
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.line import Line, wrapped
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.stats.bounds import SESSIONS_FOR_SPREAD
from pytest_sdperf.units import plural
from pytest_sdperf.values.outcomes import Outcome

UPDATE = "--sdperf-update-baselines"
RESUME, PLAN = "--sdperf-resume", "--sdperf-plan"
MOST = "--sdperf-max-processes"
PROCESSES, PROMPTS, BATCH_SIZE = "--sdperf-processes", "--sdperf-prompts", "--sdperf-batch-size"
JSON = ("--sdperf-json=", "--json=")
IN_PROCESS = ("--sdperf-inprocess", "--inprocess")
# These have a short name too (`--max-processes`), which a project that owns its command line may use.
SHORTENED = frozenset({UPDATE, MOST, PROCESSES, PROMPTS, BATCH_SIZE})
_OF_SIDE_B = ("ab", "ab-engine", "ab-optimization", "ab-build")
# What makes the second side of an A/B, by either name of an option.
SIDE_B = frozenset(f"--{start}{name}" for start in ("sdperf-", "") for name in _OF_SIDE_B)
# Codes of what no further process makes known.
UNSEEN, OUT_OF_MEMORY = "-not-seen", "out-of-memory"
# Metrics that no baseline holds.
NEVER_STORED = frozenset((SEMANTICS, INTERLEAVING, *REPLAYS.values()))


def next_lines(reports: Sequence[CaseReport], run: RunInfo, *, width: int) -> Iterator[Line]:
    """Yield why and, as the last line, the command; a command is never broken, so that it can be copied."""
    why, command = _rest(reports, run) or _next(reports, run)
    yield from wrapped(f"next, {why}:", width=width)
    yield Line(command, ("bold",))


def _rest(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str] | None:
    """Return how to go on with what this run did not come to; None if it came to everything."""
    if run.resumable:
        return f"measure the rest, and take over {plural(run.resumable, 'measured case')}", _with(run.command, RESUME)
    if any(report.outcome is Outcome.NOT_MEASURED for report in reports):
        return "see how much time the rest needs", _with(run.command, PLAN)
    if run.interrupted and not run.results:
        return "run it again, to its end", run.command
    return None


def _next(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str]:
    outcomes = [report.outcome for report in reports if report.outcome is not None]
    compared = any(report.agreements for report in reports)
    if not outcomes and not compared:
        failed = any(report.problem for report in reports)
        again = ("run what failed again, once its reason is gone", _with(run.command, "--lf"))
        return again if failed else ("see what these options collect", f"{run.command} --collect-only -q")
    disagree = any(report.disagreements for report in reports)
    unlike = _another_driver(reports, run) or _side_a(reports, run)
    if unlike and not disagree and Outcome.REGRESSED not in outcomes:
        return unlike
    for failed, why in (
        (disagree, "look at the disagreement alone, before any time"),
        (Outcome.REGRESSED in outcomes, "measure what regressed again, alone"),
        (Outcome.INVALID in outcomes, "measure what was invalid again, once its reason is gone"),
    ):
        if failed:
            return why, _with(run.command, "--lf")
    undecided = [v for report in reports for v in report.verdicts if v.outcome is Outcome.INCONCLUSIVE]
    if undecided and (settled := _beyond_processes({verdict.code for verdict in undecided}, run)):
        return settled
    open_metrics = {verdict.metric for verdict in undecided}
    judged = {verdict.metric for report in reports for verdict in report.verdicts}
    if run.pairs or (judged and judged <= NEVER_STORED):
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
    words = run.command.split(" ")
    named = {place for place, word in enumerate(words) if word.partition("=")[0] in SIDE_B}
    if not codes & {SIDE_A_DEFECT, SIDE_A_DISAGREES} or not named:
        return None
    gone = named | {place + 1 for place in named if "=" not in words[place]}
    alone = " ".join(word for place, word in enumerate(words) if place not in gone)
    return "look at side A alone, which is what is wrong", _with(alone, "--lf")


def _beyond_processes(codes: set[str], run: RunInfo) -> tuple[str, str] | None:
    """Return what follows where measuring more would settle nothing; None where it may settle something."""
    if codes == {OUT_OF_MEMORY}:
        return "compare something smaller, which fits", _with(run.command, f"{BATCH_SIZE}=1")
    if all(code.endswith(UNSEEN) for code in codes):
        return "see which libraries could tell what was not seen", "sdperf doctor"
    return None


def _without_baseline(reports: Sequence[CaseReport], open_metrics: set[str], run: RunInfo) -> tuple[str, str]:
    """Return what follows where nothing that was judged is ever stored."""
    if not open_metrics:
        return _keep(reports, run)
    if run.pairs or INTERLEAVING in open_metrics:
        return "measure more pairs, on a quieter machine", _with(run.command, f"{MOST}=24")
    return _again(open_metrics, run)


def _keep(reports: Sequence[CaseReport], run: RunInfo) -> tuple[str, str]:
    """Return what becomes of results that are as they were; only what was measured can be judged again."""
    file = next((word.partition("=")[2] for word in run.command.split() if word.startswith(JSON)), "")
    if file and not any(report.measured for report in reports):
        return "see what else these options collect", f"{run.command} --collect-only -q"
    if file:
        return "judge these results again, on any machine", f"sdperf gate {file} --gpu={run.slug}"
    return "keep these results in a file", _with(run.command, f"{JSON[0]}results.json")


def _onwards(reports: Sequence[CaseReport], open_metrics: set[str], run: RunInfo) -> tuple[str, str]:
    """Return what follows where nothing went wrong."""
    outcomes = [{verdict.outcome for verdict in report.verdicts} for report in reports]
    if run.results:
        return "accept these results", f"sdperf baselines accept {run.results}"
    if run.in_process:
        words = [word for word in run.command.split(" ") if word not in IN_PROCESS]
        return "measure in processes of their own", " ".join(words)
    if run.updating:
        return _look(run)
    fresh = sum(bool(found & {Outcome.NEW, Outcome.IMPROVED}) for found in outcomes)
    if fresh:
        return (
            f"accept {plural(fresh, 'result')} that are new or improved" if fresh > 1 else "accept the result",
            _with(run.command, UPDATE),
        )
    if open_metrics:
        return _again(open_metrics, run)
    timed = any(verdict.metric == LATENCY for report in reports for verdict in report.verdicts)
    if timed and run.sessions < SESSIONS_FOR_SPREAD:
        missing = SESSIONS_FOR_SPREAD - run.sessions
        why = f"add this session to the baseline ({plural(missing, 'more')} and it knows how days differ)"
        return why.replace("mores", "more"), _with(run.command, UPDATE)
    return _keep(reports, run)


def _look(run: RunInfo) -> tuple[str, str]:
    """Return how to see what was accepted: `git diff` fails or shows nothing where git does not know the file."""
    if run.tracked:
        return "review what was accepted", f"git diff {shlex.quote(run.baselines)}"
    if not run.slug:
        return "see what is stored", f"python -m json.tool {shlex.quote(str(Path(run.baselines, run.fusions)))}"
    return "see what is stored", f"sdperf baselines list --baselines={shlex.quote(str(Path(run.baselines).parent))}"


def _again(metrics: set[str], run: RunInfo) -> tuple[str, str]:
    """Return what may settle metrics that are INCONCLUSIVE."""
    if metrics == {SEMANTICS}:
        return "draw every prompt of the list", _with(run.command, f"{PROMPTS}=100")
    if metrics == {BUILD_TIME}:
        return "measure with what is built now, whose time is not judged again", run.command
    return "measure with more processes, on a quieter machine", _with(run.command, f"{PROCESSES}=10")


def _with(command: str, option: str) -> str:
    """Add an option to a command; another value of the same option, by either of its names, makes room for it."""
    name, _, value = option.partition("=")
    names = (name, name.replace("--sdperf-", "--")) if name in SHORTENED else (name,)
    kept = [word for word in command.split(" ") if not (value and word.partition("=")[0] in names and "=" in word)]
    return " ".join(kept if not value and set(kept) & set(names) else [*kept, option])
