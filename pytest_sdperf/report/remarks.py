"""What is worth knowing about the machine while cases were measured, without making them INVALID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, batches_differ, case_label
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.remark import Remark


def remark_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield each remark once, with its case; of those about the same the largest, and their count."""
    found: dict[str, list[tuple[Remark, Measurement, str]]] = {}
    sides = [(side, one) for report in reports for side, one in report.measurements.items()]
    several = batches_differ(one.case for _, one in sides)
    for side, one in sides:
        for remark in filter(None, (*one.remarks, *(metric.remark(one) for metric in OURS.values()))):
            if not remark.usual:
                found.setdefault(remark.about or remark.text, []).append((remark, one, side))
    for same in found.values():
        remark, one, side = max(same, key=lambda item: item[0].value)
        cases = plural(len({(about.case.key, of) for _, about, of in same}), "case")
        label = case_label(one.case, one.case.component, batch=several, side=side).removeprefix(INDENT)
        if len({remark.text for remark, *_ in same}) > 1:
            where = f"{cases}, most of all {label}"
        else:
            where = label if cases == "1 case" else cases
        yield from wrapped(f"{remark.text.rstrip('.')} ({where})", width=width, rest=INDENT)
