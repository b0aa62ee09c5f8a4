"""Stored sessions as CSV: every line, and that it is read back as it was."""

from __future__ import annotations

import csv

from sample_values import CASE, case, session, stored

from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.core.values.artifact import Artifact
from pytest_sdperf.report.exported import COLUMNS, csv_lines

OTHER = case(batch_size=4, engine_options=(("providers", 'a,"b"'),))


def lines(**cases):
    return list(csv_lines((slug, Baseline(machine={}, cases=found)) for slug, found in cases.items()))


def test_a_row_for_every_session_and_metric():
    first = session(9.0, 10.0, 11.0, date="2026-11-01T10:00Z", commit="abc", artifacts={"unet": Artifact(7, 9)})
    second = session(12.0, date="2026-11-02T10:00Z")
    assert lines(h200={CASE.key: stored(first, second)}) == [
        "date,commit,slug,key,metric,value",
        f"2026-11-01T10:00Z,abc,h200,{CASE.key},compiled_bytes.unet,9",
        f"2026-11-01T10:00Z,abc,h200,{CASE.key},first_run_bytes,524288000",
        f"2026-11-01T10:00Z,abc,h200,{CASE.key},latency_s,0.01",
        f"2026-11-01T10:00Z,abc,h200,{CASE.key},model_bytes.unet,7",
        f"2026-11-01T10:00Z,abc,h200,{CASE.key},nodes.unet,200",
        f"2026-11-01T10:00Z,abc,h200,{CASE.key},processes,3",
        f"2026-11-01T10:00Z,abc,h200,{CASE.key},second_run_bytes,419430400",
        f"2026-11-02T10:00Z,,h200,{CASE.key},first_run_bytes,524288000",
        f"2026-11-02T10:00Z,,h200,{CASE.key},latency_s,0.012",
        f"2026-11-02T10:00Z,,h200,{CASE.key},nodes.unet,200",
        f"2026-11-02T10:00Z,,h200,{CASE.key},processes,1",
        f"2026-11-02T10:00Z,,h200,{CASE.key},second_run_bytes,419430400",
    ]


def test_a_session_that_ran_out_of_memory_says_so_and_nothing_else():
    (_, row) = lines(a10={CASE.key: stored(session(failure="oom", date="2026-11-01T10:00Z"))})
    assert row == f"2026-11-01T10:00Z,,a10,{CASE.key},out_of_memory,1"


def test_memory_that_nobody_could_tell_has_no_row():
    found = lines(a10={CASE.key: stored(session(10.0, first=None, second=None))})
    assert [line.rpartition(",")[0].rpartition(",")[2] for line in found[1:]] == [
        "latency_s", "nodes.unet", "processes"
    ]  # fmt: skip


def test_devices_are_sorted_by_date_and_every_cell_is_read_back():
    late, early = session(10.0, date="2026-11-03T10:00Z"), session(10.0, date="2026-11-02T10:00Z")
    rows = list(csv.DictReader(lines(a10={OTHER.key: stored(late)}, t4={CASE.key: stored(early)})))
    assert tuple(rows[0]) == COLUMNS
    assert [row["slug"] for row in rows] == ["t4"] * 5 + ["a10"] * 5
    assert {row["key"] for row in rows} == {CASE.key, OTHER.key}
