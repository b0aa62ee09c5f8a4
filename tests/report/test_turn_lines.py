"""How the report says for whom a measurement waited, and that several devices measured."""

from __future__ import annotations

import dataclasses

from sample_values import case, measurement

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.lock_wait import LockWait
from pytest_sdperf.report.header import header_lines
from pytest_sdperf.report.lock_waits import turn_lines
from pytest_sdperf.report.run_info import RunInfo


def report(waited_s, waited_for):
    measured = measurement(case=case(model="sd15", engine="ort-cuda"))
    return CaseReport(
        "t", measured.case, dataclasses.replace(measured, turn=LockWait(1, 100, 110, waited_s, waited_for))
    )


def test_who_waited_for_another_run_is_told_and_by_whom_it_was_kept():
    told = "process 4242 has it since 10:41 UTC, for sdxl unet at fp16 on torch"
    lines = turn_lines([report(42.4, told), report(30, ""), CaseReport("t", case())], width=100)
    assert [line.text for line in lines] == [
        "sd15 unet at fp16 on ort-cuda waited 42 s for its device: process 4242 has it since 10:41 UTC, for",
        "  sdxl unet at fp16 on torch",
    ]


def test_several_devices_are_said_in_the_header():
    run = RunInfo("NVIDIA H100", "h100-sxm5-80gb", devices=2)
    assert next(iter(header_lines(run, width=100))).text == (
        "device     2 of them side by side: NVIDIA H100 (h100-sxm5-80gb)"
    )
