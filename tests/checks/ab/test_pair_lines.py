"""The A/B table, as a person sees it."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import case, failed, measurement

from pytest_sdperf.cases.options.other_side import SIDES
from pytest_sdperf.checks.ab.pairs import judge_pairs
from pytest_sdperf.checks.ab.table import pair_lines
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.report.next_command import next_lines
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.terminal import report_lines

POLICY = Policy(max_processes=12)
OLD, NEXT = {"onnxruntime": "1.31.1"}, {"onnxruntime": "1.32.0"}
WHOLE = {"component": "pipeline", "steps": 4, "scheduler": "ddim"}
RUN = RunInfo("A CPU", "cpu-a-2c", baseline_cases=3, command="pytest suites --ab=next/bin/python", pairs=True)

TABLE = """\
A: ort-cpu at fp16, onnxruntime 1.31.1
B: ort-cpu at fp16, onnxruntime 1.32.0, under /next/bin/python; one build for
  both
                            A        B  B / A  95 % interval pairs  verdict
  sd15-thin unet, 128x128
                      10.0 ms  12.0 ms   1.20   1.20 to 1.20     2  REGRESSED
  sd15-thin pipeline, 128x128, 4 steps ddim
                       300 ms   300 ms   1.00   0.99 to 1.01     2  HELD
  sd15-thin vae_decoder, 128x128
                      8.00 ms      OOM                           0  REGRESSED
  sd15-thin text_encoder, 128x128
                            -  8.00 ms                           0  INVALID"""
WIDE = """\
A: ort-cpu at fp16, onnxruntime 1.31.1
B: ort-cpu at fp16, onnxruntime 1.32.0, under /next/bin/python; one build for both
                                 A        B  B / A  95 % interval pairs  verdict
  sd15-thin unet, 128x128  10.0 ms  12.0 ms   1.20   1.20 to 1.20     2  REGRESSED"""


def report(name, a, b):
    pairs = Pairs(a, b, pythons=("", "/next/bin/python"), shared=True)
    return CaseReport(
        f"suites/test_pipelines.py::test_speed[{name}]",
        a.case,
        None,
        judge_pairs(pairs, policy=POLICY),
        pairs=pairs,
    )


def side(*times, subject, **fields):
    return measurement(*times, subject=subject, case=case(**fields), calls=5 if fields else 0)


REPORTS = [
    report("unet", side(10.0, 10.01, subject=OLD), side(12.0, 12.01, subject=NEXT)),
    report("pipeline", side(300, 301, subject=OLD, **WHOLE), side(301, 300, subject=NEXT, **WHOLE)),
    report(
        "vae",
        side(8.0, subject=OLD, component="vae_decoder"),
        failed("oom", "no room", case=case(component="vae_decoder"), subject=NEXT),
    ),
    report(
        "text",
        failed("crash", "it died", case=case(component="text_encoder"), subject=OLD),
        side(8.0, subject=NEXT, component="text_encoder"),
    ),
]


def whole(reports, *, width=80):
    return "\n".join(line.text for line in report_lines(reports, RUN, width=width))


@pytest.mark.parametrize(("width", "count", "table"), [(80, 4, TABLE), (120, 1, WIDE)])
def test_both_sides_stand_above_one_row_per_case(width, count, table):
    assert "\n".join(line.text for line in pair_lines(REPORTS[:count], width=width)) == table


def test_sides_that_differ_have_tables_of_their_own():
    other = report("fp32", side(10.0, 10.0, subject=OLD, optimization="fp32"), side(10.0, 10.0, subject=NEXT))
    text = "\n".join(line.text for line in pair_lines([REPORTS[0], other], width=120))
    assert text.count("95 % interval") == 2
    assert "A: ort-cpu at fp32, onnxruntime 1.31.1" in text.splitlines()


def test_a_whole_report_says_that_no_baseline_is_used():
    lines = whole(REPORTS).splitlines()
    assert lines[:5] == [
        "verdicts of 4 cases: 2 REGRESSED, 1 INVALID, 1 HELD",
        "device     A CPU (cpu-a-2c)",
        "baselines  none is used: side B of an A/B is judged by side A",
        "",
        "A: ort-cpu at fp16, onnxruntime 1.31.1",
    ]
    assert lines[-4:] == [
        "",
        "pytest -v adds memory, builds, agreement, fused operators, floors and kernels",
        "next, measure what regressed again, alone:",
        "pytest suites --ab=next/bin/python --lf",
    ]


def test_what_comes_next():
    noisy = report("unet", side(9.0, 11.0, subject=OLD), side(11.0, 9.0, subject=NEXT))
    assert whole([REPORTS[1]]).splitlines()[-2:] == [
        "next, keep these results in a file:",
        "pytest suites --ab=next/bin/python --sdperf-json=results.json",
    ]
    assert whole([noisy]).splitlines()[-2:] == [
        "next, measure more pairs, on a quieter machine:",
        "pytest suites --ab=next/bin/python --sdperf-max-processes=24",
    ]


def test_a_report_with_pairs_survives_json():
    assert [convert(to_json(one), CaseReport) for one in REPORTS] == REPORTS


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("start", ["--sdperf-", "--"])
@pytest.mark.parametrize("between", ["=", " "])
@pytest.mark.parametrize("code", ["side-a-defect", "side-a-disagrees"])
def test_where_side_a_is_what_is_wrong_the_next_command_looks_at_it_alone(name, start, between, code):
    def after(command, *more):
        verdicts = (Verdict(Outcome.INVALID, code, "Side A: wrong.", "latency"), *more)
        run = dataclasses.replace(RUN, command=command)
        return [line.text for line in next_lines([CaseReport("t", case(), verdicts=verdicts)], run, width=90)]

    command = f"pytest suites {start}{name}{between}other --gpu=auto"
    assert after(command) == ["next, look at side A alone, which is what is wrong:", "pytest suites --gpu=auto --lf"]
    red = Verdict(Outcome.FAILED, "cpu-nodes", "Side B: wrong.", "placement")
    assert after(command, red) == ["next, look at what failed alone, before any time:", f"{command} --lf"]
    # What the project's settings name cannot be left out of a command.
    again = "next, measure what was invalid again, once its reason is gone:"
    assert after("pytest suites") == [again, "pytest suites --lf"]
