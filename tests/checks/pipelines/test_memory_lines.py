"""How the memory table of a GPU reads."""

from __future__ import annotations

import dataclasses

from sample_values import MB, case, failed, measurement

from pytest_sdperf.checks.pipelines.tables.memory import memory_table
from pytest_sdperf.checks.reporting.case_report import CaseReport

GPU = {"model": "sd15", "height": 512, "width": 512}


def report(engine, *peaks, source="device"):
    measured = measurement(case=case(**GPU, engine=engine), source=source)
    sizes = [{way: {run: mb * MB for run, mb in runs.items()} for way, runs in of.items()} for of in peaks]
    pairs = zip(measured.samples, sizes, strict=True)
    samples = tuple(dataclasses.replace(sample, peaks_bytes=size) for sample, size in pairs)
    return CaseReport("a test", measured.case, dataclasses.replace(measured, samples=samples))


def text(*reports):
    return [line.text for line in memory_table(reports).lines(width=100)]


HOST = {"first_run": 3000, "second_run": 2000}
TORCH = [{"allocator": {"first_run": mb, "second_run": mb - 500}, "host": HOST} for mb in (2600, 2500, 2700)]
ORT = [{"host": HOST, "device": {"first_run": 6800}}] * 3


def test_each_way_has_its_columns_and_what_an_engine_does_not_tell_is_a_dash():
    assert text(
        report("torch", *TORCH), report("ort-cuda", *ORT), CaseReport("x", case(), failed("oom", "no room"))
    ) == [
        "memory                           alloc 1st  alloc 2nd  host 1st  host 2nd",
        "  sd15 unet fp16 (ort) torch         2,500      2,000     3,000     2,000",
        "  sd15 unet fp16 (ort) ort-cuda          -          -     3,000     2,000",
        "  MB of 2^20 bytes, peaks of the first and the second run, each the least of the processes: alloc is",
        "  what the engine's own allocator handed out (- where it does not tell), host the resident memory of",
        "  the worker process",
    ]


def test_on_a_processor_the_table_of_latencies_says_it_all():
    assert text(report("ort-cpu", *ORT, source="host")) == []


def test_where_only_the_device_was_watched_there_is_nothing_more_to_say():
    assert text(report("ort-cuda", *[{"device": HOST}] * 3)) == []
