"""The table of replays: how far answers that have to be the same lie apart, and how far they are from torch's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.replay.judging import METRICS
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, TableRow, batches_differ, case_label, column_lines
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.values.replays import Replay

_COLUMNS = ("apart", "limit", "error", "limit")
_LEGEND = (
    "apart: largest relative L2 distance of answers that have to be the same (equal: bit for bit): of equal calls in "
    "one process and in several, of rows or images of a batch and the same alone, of one resolution each time that it "
    "comes; error: of answers to other inputs against torch; limits: 2 x the error of plain torch in the same type"
)


def replay_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one row for each thing that was looked at; nothing where no case was called again."""
    looked = [report for report in reports if report.replays]
    if not looked:
        return
    several = batches_differ(report.case for report in looked)
    rows = [_row(report, replay, batch=several) for report in looked for replay in report.replays]
    yield from column_lines("replay", _COLUMNS, rows, width=width)
    yield from wrapped(_LEGEND, width=width, first=INDENT, rest=INDENT)


def _row(report: CaseReport, replay: Replay, *, batch: bool) -> TableRow:
    spreads = [(one.largest, one.limit) for one in replay.spreads]
    apart, error = _nearest(spreads), _nearest([(one.error, one.limit) for one in replay.answers])
    cells = ("equal" if spreads and all(one.equal for one in replay.spreads) else apart[0], apart[1], *error)
    verdict = report.verdict(METRICS[replay.check])
    styles = STYLES.get(verdict.outcome, ()) if verdict else ()
    case, side = report.looked_at
    return TableRow(case_label(case, f"{case.component} {replay.check}", batch=batch, side=side), cells, styles)


def _nearest(found: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """Return the distance that is nearest to its limit, and the limit; hyphens where nothing was compared."""
    distance, limit = max(found, key=lambda one: _share(*one), default=(None, None))
    return ("-", "-") if distance is None else (f"{distance:.2e}", f"{limit:.2e}")


def _share(distance: float, limit: float) -> float:
    share = distance / limit if limit else math.inf
    return share if math.isfinite(share) else math.inf
