"""What is worth knowing about the machine while cases were measured, without making them INVALID."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.pipelines.judging.answers import remark_of
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, batches_differ, case_label
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.floor import UNKNOWN

# Told elsewhere: beside the floors, and as the share of time that threads waited.
_ELSEWHERE = (UNKNOWN, "Load average")
# What a card does all the time, and what it did for less than half a second. `--sdperf-json` holds these too.
_USUAL, _SHORTEST_S = "normal for this card", 0.5
_SECONDS = re.compile(r"^While measuring: .*, (\S+) s\.$")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def remark_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield each remark once, with its case; of those that differ by numbers alone the largest, and their count."""
    found: dict[str, list[tuple[str, Measurement, str]]] = {}
    sides = [(side, one) for report in reports for side, one in report.measurements.items()]
    several = batches_differ(one.case for _, one in sides)
    for side, one in sides:
        for remark in dict.fromkeys(filter(None, (*one.remarks, remark_of(one)))):
            if not (remark.startswith(_ELSEWHERE) or _is_trifling(remark)):
                found.setdefault(_NUMBER.sub("#", remark), []).append((remark, one, side))
    for same in found.values():
        remark, one, side = max(same, key=lambda item: _numbers(item[0]))
        cases = plural(len({(about.case.key, of) for _, about, of in same}), "case")
        label = case_label(one.case, one.case.component, batch=several, side=side).removeprefix(INDENT)
        if len({remark for remark, _, _ in same}) > 1:
            where = f"{cases}, most of all {label}"
        else:
            where = label if cases == "1 case" else cases
        yield from wrapped(f"{remark.rstrip('.')} ({where})", width=width, rest=INDENT)


def _is_trifling(remark: str) -> bool:
    lasted = _SECONDS.match(remark)
    return _USUAL in remark or (lasted is not None and float(lasted[1]) < _SHORTEST_S)


def _numbers(remark: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(remark)]
