"""The A/B table: both sides by what they ran, and how much slower B is, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sdperf.baselines.published import OOM
from pytest_sdperf.checks.ab.pairs import REPORTED, center, ratio_of, sides
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import request_label
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.units import digits, seconds
from pytest_sdperf.core.values import Case, Measurement
from pytest_sdperf.core.values.outcomes import Outcome

_HEADINGS = ("A", "B", "B / A", "95 % interval", "pairs", "verdict")
_WIDTHS = (9, 9, 7, 15, 6, 14)
_INDENT = "  "


def pair_lines(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield both sides and one row per case, for each pair of sides."""
    compared = [(report, report.pairs) for report in reports if report.pairs is not None]
    longest = max((len(_label(report.case)) for report, _ in compared), default=0)
    label_width = max(min(longest, width - sum(_WIDTHS)), 0)
    for both in dict.fromkeys(sides(pairs) for _, pairs in compared):
        for text in both:
            yield from wrapped(text, width=width, rest=_INDENT, styles=("bold",))
        yield Line(f"{'':<{label_width}}{_row(_HEADINGS)}".rstrip(), ("bold",))
        for report, pairs in compared:
            if sides(pairs) == both:
                yield from _lines(report, pairs, label_width=label_width)


def _lines(report: CaseReport, pairs: Pairs, *, label_width: int) -> Iterator[Line]:
    """Yield one row; a label that is too long has a line of its own."""
    outcome, label = report.outcome or Outcome.HELD, _label(report.case)
    styles = STYLES.get(outcome, ())
    if len(label) > label_width:
        yield Line(label, styles)
        label = ""
    yield Line(f"{label:<{label_width}}{_row((*_cells(pairs), outcome.value))}".rstrip(), styles)


def _label(case: Case) -> str:
    batch = f", batch {case.batch_size}" if case.batch_size > 1 else ""
    return f"{_INDENT}{case.model} {request_label(case)}{batch}"


def _row(cells: Sequence[str]) -> str:
    numbers = "".join(f"{cell:>{width}}" for cell, width in zip(cells[:-1], _WIDTHS, strict=False))
    return f"{numbers}  {cells[-1]}"


def _cells(pairs: Pairs) -> tuple[str, str, str, str, str]:
    times = (_time(pairs.a), _time(pairs.b))
    whole = pairs.count == len(pairs.a.samples) == len(pairs.b.samples)
    if not whole or not pairs.count or "-" in times:
        return (*times, "", "", str(pairs.count))
    found = ratio_of(pairs)
    low, high = (digits(end) for end in found.ends(REPORTED))
    return (*times, digits(found.ratio), f"{low} to {high}", str(pairs.count))


def _time(side: Measurement) -> str:
    if side.out_of_memory:
        return OOM
    usable = side.samples and all(time > 0 for sample in side.samples for time in sample.iterations_s or (0.0,))
    return seconds(center(side)) if usable else "-"
