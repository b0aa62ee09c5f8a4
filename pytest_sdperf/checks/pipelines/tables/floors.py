"""The floor table: how fast each case could be at most on its device, and how much of that speed it reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, Table, TableRow, batches_differ, case_label
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import digits, seconds, share
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.floor import MEASURED

_COLUMNS = ("TFLOP", "floor", "latency", "reached")


def floor_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one row per case whose floor is known, and why that of others is not; nothing on a CPU."""
    reports = list(reports)
    yield from floor_table(reports).lines(width=width)
    for text in floors_not_known(reports):
        yield from wrapped(text, width=width, rest=INDENT)


def floor_table(reports: Iterable[CaseReport]) -> Table:
    """Return the table alone."""
    sides = [(side, measurement) for report in reports for side, measurement in report.measurements.items()]
    measured = [measurement for _, measurement in sides]
    several = batches_differ(measurement.case for measurement in measured)
    rows = [row for side, measurement in sides for row in _rows(measurement, batch=several, side=side)]
    return Table("floor", _COLUMNS, tuple(rows), (_legend(measured),))


def floors_not_known(reports: Iterable[CaseReport]) -> list[str]:
    """Return why floors are not known, each reason once."""
    reasons = (measurement.floor_not_known for report in reports for measurement in report.measurements.values())
    return [f"The physical floor is not known: {why}." for why in dict.fromkeys(filter(None, reasons))]


def reached(measurement: Measurement) -> float | None:
    """Return the share of the possible speed that a latency reaches; None where one of the two is not known."""
    floor = measurement.floor
    latency_s = measurement.known_latency_s
    return None if floor is None or latency_s is None else floor.share(latency_s)


def _rows(measurement: Measurement, *, batch: bool, side: str) -> Iterator[TableRow]:
    floor, part = measurement.floor, reached(measurement)
    if floor is None or part is None:
        return
    latency_s, case = measurement.latency_s, measurement.case
    numbers = (digits(floor.flops / 1e12), seconds(floor.seconds), seconds(latency_s), share(part))
    yield TableRow(
        case_label(case, case.component, batch=batch, side=side), numbers, ("red",) if latency_s < floor.bound_s else ()
    )


def _legend(measured: Sequence[Measurement]) -> str:
    """Say what a floor is and which rates it rests on."""
    rates = "the rates of its data sheet"
    calibration = next((one.calibration for one in measured if one.floor and one.floor.basis == MEASURED), None)
    if calibration is not None:
        product, copy = digits(calibration.flops_per_s / 1e12), digits(calibration.bytes_per_s / 1e9)
        rates = f"the rates measured on it ({product} TFLOP/s, {copy} GB/s)"
    return (
        f"floor: the least time on this device if every product, convolution and attention ran at {rates} and all "
        f"else cost nothing; reached: the share of that speed"
    )
