"""What the machine did while cases were measured is told once, below the table."""

from __future__ import annotations

from sample_values import case, measurement

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.values.remark import Remark
from pytest_sdperf.report.remarks import remark_lines
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.terminal import report_lines

FULL = {"model": "sd15", "height": 512, "width": 512, "engine": "ort-cuda"}
BLIND = Remark("This machine cannot tell whether other processes use the GPU.")
ONE, EIGHT = case(**FULL), case(**FULL, batch_size=8)


def capped(seconds, *, usual=False):
    text = f"While measuring: software power cap, {seconds:.3g} s."
    return Remark(text, "software power cap", seconds, usual=usual)


def report(of, *remarks):
    return CaseReport("a test", of, measurement(7, 7, 7, case=of, remarks=remarks))


def lines(*reports, width=120):
    return [line.text for line in remark_lines(reports, width=width)]


def test_a_remark_names_its_case():
    assert lines(report(ONE), report(EIGHT, capped(7.19))) == [
        "While measuring: software power cap, 7.19 s (sd15 unet fp16 (ort) ort-cuda batch 8)"
    ]


def test_a_remark_of_several_cases_is_told_once():
    assert lines(report(ONE, BLIND), report(EIGHT, BLIND, BLIND), report(EIGHT, BLIND)) == [
        "This machine cannot tell whether other processes use the GPU (2 cases)"
    ]


def test_of_remarks_that_differ_by_numbers_the_largest_is_told():
    assert lines(report(ONE, capped(5.85)), report(EIGHT, capped(17.2))) == [
        "While measuring: software power cap, 17.2 s (2 cases, most of all sd15 unet fp16 (ort) ort-cuda batch 8)"
    ]


def test_each_side_of_an_ab_is_named():
    pairs = Pairs(measurement(7, case=ONE), measurement(7, case=ONE, remarks=(capped(2),)))
    assert lines(CaseReport("a test", ONE, pairs=pairs)) == [
        "While measuring: software power cap, 2 s (B: sd15 unet fp16 (ort) ort-cuda)"
    ]


def test_what_is_usual_is_not_told():
    usual = Remark("The clocks are held by: board limit (clocks event reason 0x200, normal for this card).", usual=True)
    load = Remark("Load average of the last minute: 0.5 on 2 cores.", "load average", 0.5, usual=True)
    assert lines(report(ONE, usual, load, capped(0.0194, usual=True)), report(EIGHT)) == []
    held = Remark("The clocks are held by: locked clocks (clocks event reason 0x2).")
    assert lines(report(ONE, held)) == [
        "The clocks are held by: locked clocks (clocks event reason 0x2) (sd15 unet fp16 (ort) ort-cuda)"
    ]


def test_it_stands_below_the_table():
    texts = [line.text for line in report_lines([report(ONE, BLIND)], RunInfo("A card", "card"), width=120)]
    place = texts.index(f"{BLIND.text.rstrip('.')} (sd15 unet fp16 (ort) ort-cuda)")
    assert (texts[place - 1], texts[place + 1]) == ("", "")
    assert texts[place - 2] == "  fp16   7.00 ms"
