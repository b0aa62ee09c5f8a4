"""Baseline files as rows of numbers, for tools that look for drift: one row per session and metric."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Iterator

from pytest_sdperf.baselines.stored import Baseline, Session

COLUMNS = ("date", "commit", "slug", "key", "metric", "value")
"""Stable: columns are only ever added, behind these."""

Row = tuple[str, str, str, str, str, str]


def csv_lines(files: Iterable[tuple[str, Baseline]]) -> Iterator[str]:
    """Yield the lines of a CSV file, its heading first; rows are sorted by date, slug, key and metric.

    Args:
        files: Slug of a device, and what is stored of it.
    """
    rows = (
        (session.date, session.commit, slug, key, metric, repr(value))
        for slug, baseline in files
        for key, stored in baseline.cases.items()
        for session in stored.sessions
        for metric, value in _metrics(session)
    )
    yield _line(COLUMNS)
    for row in sorted(rows, key=lambda row: (row[0], *row[2:5])):
        yield _line(row)


def _metrics(session: Session) -> Iterator[tuple[str, float | int]]:
    """Yield the metrics of a session, with their units in their names; one that nobody could tell is left out."""
    if session.out_of_memory:
        yield "out_of_memory", 1
    samples = [sample for sample in session.samples if sample.iterations_s]
    if samples:
        yield "latency_s", statistics.median(sample.median_s for sample in samples)
        yield "processes", len(samples)
    for name in ("first_run_bytes", "second_run_bytes"):
        peaks = [peak for sample in samples if (peak := getattr(sample, name)) is not None]
        if peaks:
            yield name, min(peaks)  # that of the process that took least, as it is judged
    for component, counts in session.counts.items():
        yield f"nodes.{component}", sum(counts.values())
    for component, artifact in session.artifacts.items():
        yield f"model_bytes.{component}", artifact.model_bytes
        if artifact.compiled_bytes is not None:
            yield f"compiled_bytes.{component}", artifact.compiled_bytes


def _line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
