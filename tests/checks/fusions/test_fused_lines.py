"""What a report says of fused operators: what there is, and what is missing as everybody knows."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import case, fused

from pytest_sdperf.checks.fusions.table import fused_lines, fused_texts
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.report.findings import count_line, finding_lines
from pytest_sdperf.report.markdown import markdown_text
from pytest_sdperf.report.run_info import RunInfo

NORM, MHA, CONV = "com.microsoft::GroupNorm[silu]", "com.microsoft::MultiHeadAttention", "::Conv"
NATIVE = case(engine="", optimization="bias-add", fuser="native")
FOREIGN = dataclasses.replace(NATIVE, fuser="ort")
WHOLE, TARGETS = {NORM: 45, MHA: 32}, {NORM: 45, MHA: 32, CONV: 0}
GAP = Verdict(Outcome.GAP, "below-target", "The unet graph lacks much, as it is known to.", "fusions", details=("x",))


def report(of, counts, targets=TARGETS, *verdicts):
    nodeid = f"t::{of.component}-{of.optimization}-{of.fuser}"
    return CaseReport(nodeid, of, verdicts=verdicts, checks=fused(counts, targets))


def test_a_component_has_one_line_of_what_it_has_of_what_it_can_have():
    reports = [
        report(dataclasses.replace(NATIVE, optimization="fmha"), {MHA: 32}, {MHA: 32}),
        report(NATIVE, WHOLE),
        report(dataclasses.replace(NATIVE, optimization="fp16"), {CONV: 98}, {}),
        report(FOREIGN, {MHA: 33, CONV: 98}),
        report(dataclasses.replace(NATIVE, component="text_encoder"), {MHA: 12}, {MHA: 12}),
        CaseReport("t::compared", NATIVE),
    ]
    native = "sd15-thin unet bias-add (native): GroupNorm[silu] 45 of 45, MultiHeadAttention 32 of 32"
    texts = [
        native,
        (
            "sd15-thin unet bias-add (ort): GroupNorm[silu] 0 of 45, MultiHeadAttention 32 of 32, 98 Conv left, 1 "
            "more MultiHeadAttention"
        ),
        "sd15-thin text_encoder bias-add (native): MultiHeadAttention 12 of 12",
    ]
    assert fused_texts(reports) == texts
    assert fused_texts(reports, every=True) == ["sd15-thin unet fmha (native): MultiHeadAttention 32 of 32", *texts]
    assert [line.text for line in fused_lines(reports, width=150)] == [
        "fused operators",
        *(f"  {one}" for one in texts),
    ]
    assert list(fused_lines(reports[-1:], width=100)) == []
    text = markdown_text(reports, RunInfo("", "", command="pytest"), title="x")
    assert r"- sd15-thin unet bias-add (native): GroupNorm\[silu\] 45 of 45, MultiHeadAttention 32 of 32" in text


def test_exporters_are_named_where_they_differ():
    other = dataclasses.replace(NATIVE, exporter="torchscript", opset=17)
    assert [text.partition(":")[0] for text in fused_texts([report(NATIVE, WHOLE), report(other, WHOLE)])] == [
        "sd15-thin unet bias-add (native, from dynamo, opset 18, static shapes)",
        "sd15-thin unet bias-add (native, from torchscript, opset 17, static shapes)",
    ]


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (1, "GAP 1 graph lacks operators, as is stored of it: pytest -v tells which and why"),
        (4, "GAP 4 graphs lack operators, as is stored of them: pytest -v tells which and why"),
    ],
)
def test_what_is_known_to_be_missing_is_one_line_in_all(count, line):
    reports = [report(FOREIGN, {MHA: 0}, TARGETS, GAP)] * count
    assert [one.text for one in finding_lines(reports, width=80)] == [line]
    each = [one.text for one in finding_lines(reports, width=80, every=True)]
    assert each == ["GAP t::unet-bias-add-ort"] * count + [f"  {GAP.sentence} [below-target]", "    x"]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.NEW, "below-target-unknown"), (Outcome.NEW, "optimizations-missing-unknown"),
        (Outcome.NEW, "half-precision-unknown"), (Outcome.PASSED, "attention-mixed"),
        (Outcome.PASSED, "compiled-for-resolutions"),
    ],
)  # fmt: skip
def test_what_passes_and_falls_short_is_told_all_the_same(outcome, code):
    short = report(FOREIGN, {MHA: 0}, TARGETS, Verdict(outcome, code, "It lacks much.", "fusions", details=("x",)))
    lines = [one.text for one in finding_lines([short], width=80)]
    assert lines == [f"{outcome.value} t::unet-bias-add-ort", f"  It lacks much. [{code}]", "    x"]
    assert f"- **{outcome.value}** t::unet-bias-add-ort: It lacks much. \\[{code}\\]" in markdown_text(
        [short], RunInfo("", "", command="pytest"), title="x"
    )
    assert count_line([short]).text == f"verdicts of 1 case: 1 {outcome.value}"


def test_what_passes_is_not_told():
    whole = report(NATIVE, WHOLE, TARGETS, Verdict(Outcome.PASSED, "as-derived", "It has all.", "fusions"))
    assert list(finding_lines([whole], width=80)) == []
