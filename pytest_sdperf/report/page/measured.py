"""Every measured case of every device as one row, in the words of the terminal's tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.pipelines.tables.cells import MARKS, Cells, cells_of
from pytest_sdperf.checks.pipelines.tables.fairness import sums_in_half
from pytest_sdperf.checks.pipelines.tables.spread import time_range
from pytest_sdperf.checks.pipelines.tables.tables import HALF_SUMS, varying_fields
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import request_label
from pytest_sdperf.checks.reporting.gates import wrong_builds
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values import Case, Measurement
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.report.page.merged import Device

_FIRST = (PIPELINE, "unet")


@dataclass(frozen=True)
class Row:
    """One measured case, or a side of an A/B.

    Attributes:
        group: Model, and what is asked of it.
        series: Engine with what tells it from others: side, device, fuser.
        case, measurement, report: As they were found.
        cells: What the terminal shows of it.
    """

    group: str
    series: str
    case: Case
    measurement: Measurement
    report: CaseReport
    cells: Cells

    @property
    def is_result(self) -> bool:
        """Whether its time may be compared with others: it agrees with its reference, and could be measured."""
        return self.latency_s is not None and self.cells.outcome not in (Outcome.FAILED, Outcome.INVALID)

    @property
    def latency_s(self) -> float | None:
        """Median of the process medians; None where there is none."""
        return None if self.measurement.out_of_memory else self.measurement.known_latency_s

    @property
    def text(self) -> str:
        """The latency as it is written, with the mark of the worst verdict."""
        mark = {**MARKS, Outcome.FAILED: "x"}.get(self.cells.outcome, "") if self.cells.outcome else ""
        return f"{self.cells.texts[0]}{mark and f' {mark}'}"

    @property
    def ends_s(self) -> tuple[float, float] | None:
        """The least and the largest median of a process; None without a latency."""
        return None if self.latency_s is None else (min(self.measurement.medians_s), max(self.measurement.medians_s))

    @property
    def processes(self) -> str:
        """Both of them as they are written."""
        return time_range(*self.ends_s) if self.ends_s else ""

    @property
    def held(self) -> str:
        """Between which latencies the verdict would be HELD; empty where nothing is stored."""
        latency = self.report.verdict("latency")
        if latency is None or latency.low is None or latency.high is None:
            return ""
        return time_range(latency.low, latency.high)


def rows_of(devices: Sequence[Device]) -> list[Row]:
    """Return every row; whole requests come first, then UNets, then what else was measured, each by model."""
    several = len({device.name for device in devices if any(report.measured for report in device.reports)}) > 1
    found = [row for device in devices for row in _rows(device, f", {device.run.slug}" if several else "")]
    components = _ranks(_FIRST, [row.case.component for row in found])
    optimizations = _ranks([one.name for one in LADDER], [row.case.optimization for row in found])
    groups = _ranks((), [row.group for row in found])
    return sorted(
        found, key=lambda row: (components[row.case.component], groups[row.group], optimizations[row.case.optimization])
    )


def _ranks(first: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Return the place of each name: some come first, the others as they are met."""
    return {name: place for place, name in enumerate(dict.fromkeys((*first, *names)))}


def _rows(device: Device, where: str) -> Iterator[Row]:
    reports = device.reports
    wrong = wrong_builds(reports)
    measured = [report for report in reports if report.measured]
    about: dict[str, list[CaseReport]] = {}
    for report in reports:
        about.setdefault(report.case.key, []).append(report)
    varying = {
        model: varying_fields(report.case for report in measured if report.case.model == model)
        for model in {report.case.model for report in measured}
    }
    seen: set[tuple[str, str]] = set()
    for report in measured:
        for side, one in report.measurements.items():
            case = report.case_of(side)
            if (case.key, side) in seen:
                continue
            seen.add((case.key, side))
            varied = ", ".join(str(getattr(case, name)) for name in varying[report.case.model] if getattr(case, name))
            half = HALF_SUMS if sums_in_half(one) else ""
            engine = engine_label(case.engine, case.engine_options)
            series = f"{side and f'{side}: '}{engine}{varied and f' ({varied})'}{half}{where}"
            alone = [dataclasses.replace(report, case=case, measurement=one)]  # a side of an A/B
            cells = cells_of(alone if side else about[case.key], wrong)
            yield Row(f"{case.model} {request_label(case)}", series, case, one, report, cells)
