from __future__ import annotations

import dataclasses

from sample_values import case

from pytest_sdperf.checks.judging.checks import judged
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.replay.check import Batch, Repeats, Resolutions
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.replays import AnswerSpread, CallAgreement, Replay
from pytest_sdperf.report.checks import check_lines
from pytest_sdperf.report.next_command import next_lines
from pytest_sdperf.report.run_info import RunInfo

POLICY = Policy(on_cpu=True)
CHECKS = {check.word: check for check in (Repeats(), Batch(), Resolutions())}
RIGHT = Replay(
    "repeats",
    "float16",
    "float32",
    exact=True,
    spreads=(AnswerSpread("2 equal calls", 0.0, 3e-3, equal=True, output="out_sample"),),
    answers=(CallAgreement("another prompt and seed", 1e-3, 1.5e-3, 3e-3),),
)


def report(name, replay, **fields):
    own = case(**fields)
    found, verdict = judged(CHECKS[replay.check], replay, own, policy=POLICY, owner="here")
    return CaseReport(name, own, checks={verdict.metric: found}, verdicts=(verdict,))


def apart(check, largest):
    spread = AnswerSpread("row 1 of 2, and alone", largest, 3e-3, equal=False, output="out_sample")
    return dataclasses.replace(RIGHT, check=check, exact=False, spreads=(*RIGHT.spreads, spread))


def test_each_look_has_a_row():
    reports = [report("t", RIGHT), report("u", apart("batch", 1e-3)), report("v", apart("batch", 0.5))]
    lines = list(check_lines([*reports, CaseReport("w", case())], width=90))
    assert [line.text for line in lines] == [
        "replay                                          apart     limit     error     limit",
        "  sd15-thin unet repeats fp16 (ort) ort-cpu     equal  3.00e-03  1.00e-03  3.00e-03",
        "  sd15-thin unet batch fp16 (ort) ort-cpu    1.00e-03  3.00e-03  1.00e-03  3.00e-03",
        "  sd15-thin unet batch fp16 (ort) ort-cpu    5.00e-01  3.00e-03  1.00e-03  3.00e-03",
        "  apart: largest relative L2 distance of answers that have to be the same (equal: bit for",
        "  bit): of equal calls in one process and in several, of rows or images of a batch and the",
        "  same alone, of one resolution each time that it comes; error: of answers to other inputs",
        "  against torch; limits: 2 x the error of plain torch in the same type",
    ]
    assert [line.styles for line in lines[1:4]] == [(), (), ("red",)]


def test_nothing_where_nothing_was_called_again():
    assert list(check_lines([CaseReport("v", case())], width=90)) == []


def test_what_no_baseline_holds_is_kept_in_a_file():
    run = RunInfo(device="a CPU", slug="cpu", baselines="baselines", command="pytest suites/test_replay.py")
    assert [line.text for line in next_lines([report("t", RIGHT)], run, width=90)] == [
        "next, keep these results in a file:",
        "pytest suites/test_replay.py --sdperf-json=results.json",
    ]


def test_a_report_survives_json():
    whole = report("t", RIGHT)
    assert convert(to_json(whole), CaseReport) == whole
