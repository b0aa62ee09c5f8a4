"""Tolerances that differ from all others, each with its reason and the number of cases that it was applied to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.tolerances import Override
from pytest_sdperf.core.units import plural, share

_INDENT = "  "


def tolerance_lines(reports: Iterable[CaseReport], idle: Sequence[str] = (), *, width: int) -> Iterator[Line]:
    """Yield one entry per override; nothing where every case was judged alike.

    Args:
        reports: Of the run.
        idle: What else the project has, and no case of the run had use for.
        width: Columns of the terminal.
    """
    found: dict[Override, set[str]] = {}
    on_cpu: Policy | None = None
    for report in reports:
        for override in report.overrides:
            found.setdefault(override, set()).add(report.case.key)
        if report.overrides and report.policy is not None and report.policy.on_cpu:
            on_cpu = report.policy
    if found or idle:
        yield Line("tolerances of their own", ("bold",))
    for override, cases in found.items():
        wider = ""
        if on_cpu is not None and override.name == "latency" and override.effect < on_cpu.cpu_min_effect:
            wider = f" ({share(on_cpu.cpu_min_effect)} on a CPU)"
        whose = f"for {plural(len(cases), 'case')}, says {override.where}: {override.reason}"
        yield from wrapped(
            f"{override.name} {share(override.effect)}{wider} {whose}", width=width, first=_INDENT, rest=_INDENT * 2
        )
    for text in idle:
        yield from wrapped(f"not used in this run: {text}", width=width, first=_INDENT, rest=_INDENT * 2)
