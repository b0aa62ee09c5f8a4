"""The table of agreements: each row can be told from the others."""

from __future__ import annotations

import dataclasses

from sample_values import case

from pytest_sdperf.report.agreements import agreement_lines
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.values.outcomes import Agreement

AGREEMENT = Agreement("component", "relative-l2", 1.57e-3, 1.75e-3, 3.5e-3, "float16", "float32", "sample[0,3,1,2]")
FULL = {"model": "sd15", "height": 512, "width": 512, "engine": "ort-cuda"}


def labels(*batch_sizes: int) -> list[str]:
    reports = [
        CaseReport(f"t{size}", case(**FULL, batch_size=size), agreements=(AGREEMENT,) if size else ())
        for size in batch_sizes
    ]
    lines = [line.text for line in agreement_lines(reports, width=80)]
    return [line.removesuffix("  1.57e-03  3.50e-03    44.9 %") for line in lines if "1.57e-03" in line]


def test_batch_sizes_are_named_where_rows_differ_by_them():
    assert labels(1, 8) == ["  sd15 unet fp16 (ort) ort-cuda batch 1", "  sd15 unet fp16 (ort) ort-cuda batch 8"]


def test_one_batch_size_is_not_named():
    assert labels(8) == ["  sd15 unet fp16 (ort) ort-cuda"]


def test_a_batch_size_that_was_not_compared_is_no_difference():
    assert labels(8, 0) == ["  sd15 unet fp16 (ort) ort-cuda"]


def test_limits_of_several_roundings_say_so():
    image = dataclasses.replace(AGREEMENT, level="image", error=1.01e-2, yardstick=2.3e-2, limit=4.6e-2, roundings=5)
    report = CaseReport("t", case(**FULL, component="pipeline"), agreements=(image,))
    assert [line.text for line in agreement_lines([report], width=80)] == [
        "agreement                                              error     limit  of limit",
        "  sd15 pipeline image of 5 roundings fp16 (ort) ort-cuda",
        "                                                    1.01e-02  4.60e-02      22 %",
        "  error: relative-l2 to the reference (float16 against float32); limit: 2 x the",
        "  error of plain torch in the same type",
        "  of 5 roundings: beyond the limit of one, so the initial latents of the",
        "  yardstick were rounded in 4 other ways; the largest of its errors counts",
    ]
