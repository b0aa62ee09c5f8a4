"""The memory table of a GPU: what the engine's own allocator and the worker process on the host took at most.

What the whole device holds stands beside the latencies.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import Table, TableRow, batches_differ, case_label
from pytest_sdperf.core.units import MEGABYTE
from pytest_sdperf.core.values import Measurement

_COLUMNS = {
    "alloc 1st": ("allocator", "first_run"),
    "alloc 2nd": ("allocator", "second_run"),
    "host 1st": ("host", "first_run"),
    "host 2nd": ("host", "second_run"),
}
_LEGEND = (
    "MB of 2^20 bytes, peaks of the first and the second run, each the least of the processes: alloc is what the "
    "engine's own allocator handed out (- where it does not tell), host the resident memory of the worker process"
)


def memory_table(reports: Iterable[CaseReport]) -> Table:
    """Return one row per case that ran on a GPU."""
    told = [one for report in reports if (one := report.measurement) is not None and _tells_more(one)]
    several = batches_differ(one.case for one in told)
    rows = [TableRow(case_label(one.case, one.case.component, batch=several), _cells(one)) for one in told]
    return Table("memory", tuple(_COLUMNS), tuple(rows), (_LEGEND,))


def _tells_more(measurement: Measurement) -> bool:
    """Whether its peaks are those of a device, and something else was watched too."""
    return any(
        sample.memory_source == "device" and {*sample.peaks_bytes} - {"device"} for sample in measurement.samples
    )


def _cells(measurement: Measurement) -> tuple[str, ...]:
    return tuple(_least(measurement, way, run) for way, run in _COLUMNS.values())


def _least(measurement: Measurement, way: str, run: str) -> str:
    peaks = [sample.peaks_bytes.get(way, {}).get(run) for sample in measurement.samples]
    known = [peak for peak in peaks if peak is not None]
    return f"{min(known) / MEGABYTE:,.0f}" if known else "-"
