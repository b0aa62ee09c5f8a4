"""How the energy table of a GPU reads."""

from __future__ import annotations

import dataclasses

from sample_values import case, failed, measurement, sample_with

from pytest_sdperf.checks.pipelines.tables.energy import energy_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.stats.pairs import Pairs

GPU = {"model": "sd15", "height": 512, "width": 512}
SILENT = "the driver tells no energy counter of NVIDIA T4"
LEGEND = [
    "  medians of the processes, each of at least two seconds and two calls after the timed ones, from",
    "  the card's own counter: the whole card, with what it draws idle",
]


def measured(*facts, **fields):
    one = measurement(case=case(**GPU, **fields), source="device")
    return dataclasses.replace(one, samples=tuple(sample_with(**known) for known in facts))


def report(*facts, **fields):
    one = measured(*facts, **fields)
    return CaseReport("a test", one.case, one)


def took(joules, watts, **more):
    return {"energy": {"calls": 50, "seconds": 2.0, "watts": watts, "joules_per_call": joules, **more}}


def text(*reports):
    return [line.text for line in energy_lines(reports, width=100)]


def test_each_case_has_the_median_of_its_processes_and_requests_say_what_an_image_takes():
    assert text(
        report(took(4.2, 610.0), took(4.1, 600.0), took(9.9, 900.0), engine="ort-cuda"),
        report(took(1640.0, 641.0, images=4), component="pipeline", batch_size=4, engine="torch"),
        CaseReport("x", case(), failed("oom", "no room")),
    ) == [
        "energy                                    J/call  J/image  mean W",
        "  sd15 unet fp16 (ort) ort-cuda batch 1     4.20        -     610",
        "  sd15 pipeline fp16 (ort) torch batch 4   1,640      410     641",
        *LEGEND,
    ]


def test_sides_of_an_ab_have_a_row_each():
    a, b = measured(took(4.2, 610.0)), measured(took(4.8, 700.0))
    assert text(CaseReport("a test", a.case, pairs=Pairs(a, b)))[1:3] == [
        "  A: sd15 unet fp16 (ort) ort-cpu    4.20        -     610",
        "  B: sd15 unet fp16 (ort) ort-cpu    4.80        -     700",
    ]


def test_why_it_is_not_known_is_said_once():
    silent = [report({"energy_not_available": SILENT}, {"energy_not_available": SILENT}) for _ in range(2)]
    why = f"  not known of 2 cases: {SILENT}"
    assert text(*silent) == ["energy", why]
    assert text(*silent, report(took(4.2, 610.0)))[2:] == [*LEGEND, why]


def test_on_a_processor_there_is_no_table():
    assert text(report({})) == []
