from __future__ import annotations

from sample_values import case

from pytest_sdperf.checks.judging.checks import judged
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.semantics.check import Pictures
from pytest_sdperf.checks.semantics.finding import Semantics, Window
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json
from pytest_sdperf.report.checks import check_lines
from pytest_sdperf.report.next_command import next_lines
from pytest_sdperf.report.run_info import RunInfo

SHAPES = {"model": "shapes", "component": "pipeline"}


def report(name: str, obtained: float, *, low: float = 0.75, **fields) -> CaseReport:
    seen = Semantics(
        12, Window(obtained, 1.0, low, 1.0), Window(0.8812, 0.89, 0.861, 0.919), Window(0.04, 0, 0, 0.5), {}
    )
    own = case(**SHAPES, **fields)
    found, verdict = judged(Pictures(), seen, own, policy=Policy(), owner="us")
    return CaseReport(name, own, checks={"pictures": found}, verdicts=(verdict,))


def test_each_case_has_a_row():
    lines = list(check_lines([report("t", 1.0), report("u", 0.5, engine="torch"), CaseReport("v", case())], width=90))
    assert [line.text for line in lines] == [
        "pictures                              right   window  clearness          window  shift",
        "  shapes pipeline fp16 (ort) ort-cpu  12/12  9 to 12      0.881  0.861 to 0.919   0.04",
        "  shapes pipeline fp16 (ort) torch     6/12  9 to 12      0.881  0.861 to 0.919   0.04",
        "  right: pictures that show colour, shape, size and position of both things, and the",
        "  background, as their prompts say; window: where another draw of as many prompts would",
        "  bring torch in float32, 99 of 100 times; shift: pixels between things here and in the",
        "  pictures of torch, at most 0.5",
    ]
    assert [line.styles for line in lines[1:3]] == [(), ("red",)]


def test_nothing_where_nobody_looked():
    assert list(check_lines([CaseReport("v", case())], width=90)) == []


def test_a_report_travels_with_what_was_seen():
    one = report("t", 1.0)
    assert convert(to_json(one), CaseReport) == one


def test_more_prompts_are_what_to_type_where_the_reference_is_not_understood():
    lines = list(
        next_lines([report("t", 0.0, low=0.0)], RunInfo(device="", slug="", command="pytest suites"), width=90)
    )
    assert [line.text for line in lines] == [
        "next, draw every prompt of the list:",
        "pytest suites --sdperf-prompts=100",
    ]


def test_what_is_held_may_be_kept():
    lines = list(next_lines([report("t", 1.0)], RunInfo(device="", slug="", command="pytest suites"), width=90))
    assert [line.text for line in lines] == [
        "next, keep these results in a file:",
        "pytest suites --sdperf-json=results.json",
    ]
