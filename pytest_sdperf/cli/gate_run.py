"""Saved results, judged again by the judge of the run: on a machine without a GPU, or against another baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path

from pytest_sdperf.baselines import privacy, published
from pytest_sdperf.baselines.shipped import measured
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.baselines.stored import DRIVER
from pytest_sdperf.checks.judging.policy import Policy, fail_on_field
from pytest_sdperf.checks.judging.run_status import NOTHING_JUDGED, run_status
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.gates import JUDGED_ALONE
from pytest_sdperf.checks.reporting.line import Line
from pytest_sdperf.core.errors import ResultsError
from pytest_sdperf.core.machine.gpu_facts import load_gpus
from pytest_sdperf.core.settings import FAIL_ON
from pytest_sdperf.core.units import plural
from pytest_sdperf.report.judged import why_nothing
from pytest_sdperf.report.markdown import markdown_text
from pytest_sdperf.report.results import SavedResults
from pytest_sdperf.report.terminal import report_lines
from pytest_sdperf.report.unused import SILENT, Unused, unused_cases, unused_lines


@dataclasses.dataclass(frozen=True)
class Gated:
    """Saved results and what they mean.

    Attributes:
        saved: As they were read.
        sources: What they were judged by.
        policy: How strictly; a report has its own, where its test has.
        reports: With new verdicts.
        unused: Stored cases that the run did not use.
    """

    saved: SavedResults
    sources: BaselineFiles
    policy: Policy
    reports: tuple[CaseReport, ...]
    unused: Unused

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the results as a whole are INVALID; empty where they are not."""
        return (*self._unfit, *filter(None, [self._nothing_judged]))

    @property
    def _unfit(self) -> tuple[str, ...]:
        """Why nothing can be said of results that may hold verdicts all the same."""
        summary, found = self.saved.summary, []
        if not summary.ended:
            found.append(
                f"the run ended before its last test (exit status {summary.status} of pytest): results are missing"
            )
        if lost := self._lost:
            found.append(
                f"results of {plural(len(lost), 'case')} are missing that the run collected and the baseline has: "
                f"what a run writes holds every test"
            )
        if self.saved.run.altered:
            found.append("the run was altered on purpose: its results say nothing about what is tested")
        return tuple(found)

    @property
    def _lost(self) -> list[str]:
        """Keys of stored cases that the run collected and did not skip, of which nothing at all is there."""
        there = {report.case.key for report in self.reports}
        return [key for key, why in self.unused.found.items() if why == SILENT and key not in there]

    @property
    def _nothing_judged(self) -> str:
        """By the reports that are there, whatever the run had: some of them may be gone."""
        return why_nothing(self.reports, measuring=self.saved.summary.selected, asked=self.saved.summary.selected)

    @property
    def status(self) -> int:
        """The exit status: what the run itself would have ended with."""
        expected = self.saved.summary.expected_failures
        status = run_status(
            [
                verdict.outcome
                for report in self.reports
                if report.nodeid not in expected
                for verdict in report.verdicts
            ],
            policy=self.policy,
            other_failures=self.saved.summary.failures > 0,
            nothing_judged=bool(self._nothing_judged),
            unused=bool(self.unused.found),
        )
        return NOTHING_JUDGED if self._unfit and status != 1 else status


def check_device(saved: SavedResults, gpu: str, *, path: Path) -> None:
    """Refuse results of another device than the one that was named.

    Args:
        saved: The results.
        gpu: What names it, other than an index and a UUID.
        path: Their file.

    Raises:
        ResultsError: They are of another one.
    """
    run = saved.run
    names = (load_gpus().names_of(run.slug) | {run.family, "cpu" if saved.policy.on_cpu else ""}) - {""}
    if run.slug and gpu not in names:
        another = f"names another device. Give --gpu={run.slug}, or results of {gpu}."
        wrong = another if gpu else f"names no device. Give --gpu={run.slug}."
        raise ResultsError(f"results {path} were measured on {run.slug}, and --gpu={gpu} {wrong}")


def stricter(policy: Policy, fail_on: Collection[str] | None) -> Policy:
    """Return a policy under which something else fails than the run was asked for.

    Args:
        policy: Of the run.
        fail_on: What fails, of `FAIL_ON`; None leaves what the run was asked for.
    """
    failing = {} if fail_on is None else {fail_on_field(name): name in fail_on for name in FAIL_ON}
    return dataclasses.replace(policy, **failing)  # type: ignore[arg-type]  # a truth each


def judge_saved(saved: SavedResults, sources: BaselineFiles, *, policy: Policy, any_driver: bool = False) -> Gated:
    """Judge every measurement again; what a test found out in any other way stays as it was found.

    Args:
        saved: The results.
        sources: What is stored for their device.
        policy: How strictly: `stricter` than, or as, the run.
        any_driver: Whether the stored sessions may be of another driver.
    """
    reports = tuple(_again(report, saved, sources, policy=policy, any_driver=any_driver) for report in saved.reports)
    # The other side of an A/B judges it, and no baseline.
    unused = Unused() if saved.run.pairs else unused_cases(sources.baseline, saved.summary, reports)
    return Gated(saved, sources, policy, reports, unused)


def _again(
    report: CaseReport, saved: SavedResults, sources: BaselineFiles, *, policy: Policy, any_driver: bool
) -> CaseReport:
    if report.measurement is None:
        return report
    stored, differences = sources.stored(report.case, saved.run.machine)
    if any_driver:
        differences.pop(DRIVER, None)
    # What its test has of its own (a smallest effect) stays.
    asked = {name: getattr(policy, name) for name in map(fail_on_field, FAIL_ON)}
    own = dataclasses.replace(report.policy or policy, **asked)
    verdicts = judge(report.measurement, stored, policy=own, differences=differences)
    again = {verdict.metric for verdict in verdicts}.union(JUDGED_ALONE)
    kept = (verdict for verdict in report.verdicts if verdict.metric not in again)
    return dataclasses.replace(report, verdicts=(*kept, *verdicts), policy=own)


def gate_markdown(gated: Gated, *, results: Path) -> str:
    """Return the same as Markdown.

    Args:
        gated: The verdicts.
        results: File of the results.
    """
    run = gated.saved.run.against(gated.sources, gated.reports)
    return markdown_text(gated.reports, run, title=_title(gated.saved, results), problems=gated.problems)


def _title(saved: SavedResults, results: Path) -> str:
    commit = f", commit {saved.run.commit}" if saved.run.commit else ""
    return f"{results} of {saved.date}{commit}"


def gate_lines(gated: Gated, *, results: Path, width: int, verbosity: int = 0) -> Iterator[Line]:
    """Yield the report, as the run itself would have printed it.

    Args:
        gated: The verdicts.
        results: File of the results.
        width: Columns of the terminal.
        verbosity: As of a run: below 0 ten lines, above it every table.
    """
    saved = gated.saved
    yield Line(f"results    {_title(saved, results)}")
    for problem in gated.problems:
        yield Line(f"INVALID {problem}", ("red",))
    command = privacy.restored(saved.run.command, privacy.identity()) or saved.run.command
    run = dataclasses.replace(saved.run, command=command, updating=False, in_process=False, results=str(results))
    yield from report_lines(
        gated.reports,
        run.against(gated.sources, gated.reports),
        width=width,
        published=published.beside_baselines(gated.sources.own.parent),
        shipped=measured(),
        unused=unused_lines(gated.unused, fails=gated.policy.fail_on_unused),
        verbosity=verbosity,
    )
