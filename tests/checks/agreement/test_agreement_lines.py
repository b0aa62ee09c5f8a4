"""The table of agreements: each row can be told from the others."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from sample_values import case, compared

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core import interpreter
from pytest_sdperf.core.values.outcomes import Agreement, StepAgreement
from pytest_sdperf.report.checks import check_lines

AGREEMENT = Agreement("component", "relative-l2", 1.57e-3, 1.75e-3, 3.5e-3, "float16", "float32", "sample[0,3,1,2]")
FULL = {"model": "sd15", "height": 512, "width": 512, "engine": "ort-cuda"}


def labels(*batch_sizes: int) -> list[str]:
    reports = [
        compared(f"t{size}", case(**FULL, batch_size=size), AGREEMENT) if size else CaseReport("t", case(**FULL))
        for size in batch_sizes
    ]
    lines = [line.text for line in check_lines(reports, width=80)]
    return [line.removesuffix("  1.57e-03  3.50e-03    44.9 %") for line in lines if "1.57e-03" in line]


def test_batch_sizes_are_named_where_rows_differ_by_them():
    assert labels(1, 8) == ["  sd15 unet fp16 (ort) ort-cuda batch 1", "  sd15 unet fp16 (ort) ort-cuda batch 8"]


def test_one_batch_size_is_not_named():
    assert labels(8) == ["  sd15 unet fp16 (ort) ort-cuda"]


def test_a_batch_size_that_was_not_compared_is_no_difference():
    assert labels(8, 0) == ["  sd15 unet fp16 (ort) ort-cuda"]


def test_limits_of_several_roundings_say_so():
    image = dataclasses.replace(
        AGREEMENT, level="image", error=1.01e-2, reference_error=2.3e-2, limit=4.6e-2, roundings=5
    )
    report = compared("t", case(**FULL, component="pipeline"), image)
    assert [line.text for line in check_lines([report], width=80)] == [
        "agreement                                              error     limit  of limit",
        "  sd15 pipeline image of 5 roundings fp16 (ort) ort-cuda",
        "                                                    1.01e-02  4.60e-02      22 %",
        "  error: relative-l2 to the reference (float16 against float32); limit: 2 x the",
        "  error of plain torch in the same type",
        "  of 5 roundings: beyond the limit of one, so the initial latents of plain torch",
        "  were rounded in 4 other ways; the largest of its errors counts",
    ]


def rows(agreement, component="pipeline"):
    lines = check_lines([compared("t", case(**FULL, component=component), agreement)], width=90)
    return [line.text for line in lines][1:]


def test_the_step_that_is_shown_is_named_with_the_last_one():
    numbers = [(1e-4, 1e-3), (1.76e-3, 3.47e-3), (3.13e-3, 6.35e-3)]
    steps = tuple(StepAgreement(error, limit / 2, limit) for error, limit in numbers)
    shown = {"level": "steps", "error": 1.76e-3, "reference_error": 1.735e-3, "limit": 3.47e-3, "steps": steps}
    legend = [
        "  error: relative-l2 to the reference (float16 against float32); limit: 2 x the error of",
        "  plain torch in the same type; of steps: after each, shown is the nearest to its limit",
    ]
    assert rows(dataclasses.replace(AGREEMENT, **shown, culprit="step 2 of 3")) == [
        "  sd15 pipeline steps fp16 (ort) ort-cuda  1.76e-03  3.47e-03    50.7 %",
        "    at step 2 of 3; the last: 3.13e-03, 49.3 % of its limit",
        *legend,
    ]
    shown = {**shown, "error": 3.13e-3, "reference_error": 3.175e-3, "limit": 6.35e-3}
    assert rows(dataclasses.replace(AGREEMENT, **shown, culprit="step 3 of 3")) == [
        "  sd15 pipeline steps fp16 (ort) ort-cuda  3.13e-03  6.35e-03    49.3 %",
        "    at step 3 of 3",
        *legend,
    ]


def test_a_row_that_is_its_own_reference_error_says_so():
    own = dataclasses.replace(AGREEMENT, error=1.80e-3, reference_error=1.80e-3, limit=3.60e-3)
    assert rows(own, "unet")[:2] == [
        "  sd15 unet fp16 (ort) ort-cuda  1.80e-03  3.60e-03      50 %",
        "    this is what limits others: plain torch under its own name",
    ]


@pytest.mark.parametrize(
    ("installed", "command"),
    [
        (True, "pip install 'flip-evaluator>=1.7' 'pillow>=11' 'scikit-image>=0.24'"),
        (False, f"{sys.executable} -m pip install flip-evaluator pillow scikit-image"),
    ],
)
def test_what_was_not_looked_at_names_the_packages_that_it_needs(monkeypatch, installed, command):
    if not installed:
        monkeypatch.setattr(interpreter, "PROJECT", "a-project-that-nobody-has")
    image = dataclasses.replace(AGREEMENT, level="image")
    psnr = dataclasses.replace(image, metric="psnr")
    lines = check_lines([compared("t", case(**FULL, component="pipeline"), image, psnr)], width=300)
    assert [line.text for line in lines][-1] == f"  not looked at: SSIM and FLIP; type: {command}"
