"""A report as Markdown: the whole text, and that nothing of it is taken for markup."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_values import CASE, case, compared, compared_sides, failed, measurement, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.report.markdown import escaped, markdown_text
from pytest_sdperf.report.run_info import RunInfo

RUN = RunInfo(
    "A card",
    "h200",
    "h200",
    {"cores": 2},
    engines={"ort-cpu": {"onnxruntime": "1.32.0"}},
    baselines="baselines/h200.json",
    baseline_cases=2,
    baseline_date="2026-11-20T10:00Z",
    compared=1,
    changes=("onnxruntime 1.31.1 -> 1.32.0",),
)
PIPED = case(engine_options=(("providers", "a|b"),), optimization="fmha")


def scene(of, *times_ms):
    known = stored(session(9.9, 10.0, 10.1), of=of)
    measured = measurement(*times_ms, case=of) if times_ms else failed("crash", "it ended with a | b", case=of)
    return CaseReport(f"a::b[{of.optimization}]", of, measured, verdicts=judge(measured, known, policy=Policy()))


def test_a_whole_report():
    lost = Verdict(Outcome.GAP, "below-target", "It lacks Gelu.", "fusions", details=("Gelu at b.0: no <Erf>",))
    reports = [
        scene(CASE, 9.9, 10.0, 10.1),
        scene(PIPED, 14.9, 15.0, 15.1),
        CaseReport("a::fused", CASE, verdicts=(lost,)),
    ]
    assert markdown_text(reports, RUN, title="r.json of today, commit abc").splitlines() == [
        "## verdicts of 2 cases: 1 REGRESSED, 1 GAP",
        "",
        "|  |  |",
        "|---|---|",
        "| results | r.json of today, commit abc |",
        "| device | A card (h200), 2 cores |",
        "| engines | ort-cpu: onnxruntime 1.32.0 |",
        "| baselines | baselines/h200.json: 2 cases, newest of 2026-11-20 |",
        "| changed | onnxruntime 1.31.1 -&gt; 1.32.0 |",
        "",
        ("| model | component | optimization | engine | batch | latency | change | MB 1st | MB 2nd | verdict |"),
        "|---|---|---|---|---|---|---|---|---|---|",
        "| sd15-thin | unet | fp16 (ort) | ort-cpu | 1 | 10.0 ms | 0.0 % | 500 | 400 | GAP |",
        (
            r"| sd15-thin | unet | fmha (ort) | ort-cpu:providers=a\|b | 1 | 15.0 ms | +50 %! | 500 | 400 | REGRESSED "
            r"|"
        ),
        "",
        "### Findings",
        "",
        (
            r"- **REGRESSED** a::b\[fmha\]: UNet latency 15.0 ms is 50 % above its baseline of 10.0 ms (held up to "
            r"10.5 ms by the spread of 6 processes; 1 stored session cannot show how days differ). "
            r"\[latency-above-interval\]"
        ),
        "- GAP 1 graph lacks operators, as is stored of it: the file of --sdperf-json tells which and why",
    ]


def test_disagreements_and_problems_come_first():
    wrong = Agreement("component", "relative-l2", 4e-3, 1e-3, 2e-3, "float16", "float32", "sample")
    reports = [scene(CASE, 9.9, 10.0, 10.1), compared("a::agrees", CASE, wrong)]
    text = markdown_text(reports, RUN, title="r.json", problems=("nothing | was measured",))
    assert "**INVALID** nothing \\| was measured\n" in text
    assert "| 10.0 ms | 0.0 % | 500 | 400 | FAILED |\n" in text
    assert "\n### Agreement\n\n" in text
    assert text.endswith(
        "### Findings\n\n- **FAILED** a::agrees: The component has a relative L2 error 4.00e-03 against torch float32; "
        "plain torch float16 has 1.00e-03, so at most 2.00e-03 passes; the worst element is sample. \\[component\\]\n"
    )


def test_agreements_say_whether_they_passed():
    whole = case(component="pipeline", steps=4, scheduler="pndm")
    image = Agreement("image", "relative-l2", 1.2e-3, 3e-3, 6e-3, "float16", "float32")
    psnr = Agreement("image", "psnr", 0.04, 0.01, 0.02, "float16", "float32")
    near = Agreement("component", "relative-l2", 1e-3, 1e-3, 2e-3, "float16", "float32")
    far = dataclasses.replace(near, error=math.nan)
    reports = [
        compared("a::image", whole, image, psnr),
        compared_sides("a::sides", CASE, {"A": [near], "B": [far]}, other=PIPED),
    ]
    text = markdown_text(reports, RUN, title="r.json")
    assert text[text.index("### Agreement") : text.index("### Findings")].splitlines() == [
        "### Agreement",
        "",
        "| model | component | optimization | engine | batch | error | limit | of limit | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
        (
            "| sd15-thin | pipeline image | fp16 (ort) | ort-cpu | 1 | 1.20e-03 | 6.00e-03 | 20 % | FAILED: PSNR "
            "28.0 dB (at least 34.0 dB) |"
        ),
        (
            "| A: sd15-thin | unet | fp16 (ort) | ort-cpu | 1 | 1.00e-03 | 2.00e-03 | 50 % | PASSED: this is what "
            "limits others: plain torch under its own name |"
        ),
        (
            r"| B: sd15-thin | unet | fmha (ort) | ort-cpu:providers=a\|b | 1 | nan | 2.00e-03 | - | FAILED: "
            "worst at a place that was not named |"
        ),
        "",
    ]


def test_what_a_test_left_out_is_said_where_it_judged_something_else():
    why = {"agreement": "the scheduler draws noise"}
    told = dataclasses.replace(scene(CASE, 9.9, 10.0, 10.1), left_out=why)
    last = markdown_text([told], RUN, title="x").splitlines()[-1]
    assert last == f"- **LEFT OUT** {escaped(told.nodeid)}: agreement: the scheduler draws noise"
    silent = CaseReport(told.nodeid, told.case, left_out=why)
    assert "LEFT OUT" not in markdown_text([silent], RUN, title="x")


def test_what_was_not_measured_has_no_table():
    report = CaseReport("a::b", CASE, verdicts=(Verdict(Outcome.PASSED, "as-derived", "It has all.", "fusions"),))
    compared, alone = (dataclasses.replace(RUN, changes=(), compared=number) for number in (1, 0))
    assert markdown_text([report], compared, title="x").splitlines()[-1] == "| changed | nothing that is recorded |"
    assert markdown_text([report], alone, title="x").splitlines()[-1] == (
        "| baselines | baselines/h200.json: 2 cases, newest of 2026-11-20 |"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("`x` *y* _z_", r"\`x\` \*y\* \_z\_"),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("two\nlines", "two lines"),
        ("a\\|b", r"a\\\|b"),
    ],
)
def test_nothing_is_taken_for_markup(text, shown):
    assert escaped(text) == shown


@given(st.text())
def test_every_cell_stays_one_cell(text):
    row = f"| {escaped(text)} |"
    assert len(row.splitlines()) == 1
    bare = row.replace("\\\\", "")  # a backslash of the text itself
    assert bare.count("|") - bare.count("\\|") == 2
