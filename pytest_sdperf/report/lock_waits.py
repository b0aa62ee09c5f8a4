"""For whom measurements waited: another run that had the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.labels import in_words
from pytest_sdperf.core.units import duration


def turn_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one entry per measurement that waited for another run."""
    for report in reports:
        turn = report.measurement.turn if report.measurement is not None else None
        if turn is not None and turn.waited_for:
            text = f"{in_words(report.case)} waited {duration(turn.waited_s)} for its device: {turn.waited_for}"
            yield from wrapped(text, width=width, rest="  ")
