"""A test that has vanished, was renamed or is skipped looks like one that passes; its stored case tells."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import CASE, case, measurement, stored

from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.baselines.unused import unused
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.settings import EngineRequest, Selection
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.report.run_summary import NARROWED, RunSummary
from pytest_sdperf.report.unused import GONE, Unused, asked_axes, unused_cases, unused_lines

DECODER = case(component="vae_decoder")
COLLECTED = RunSummary(selected=1, measured=True, collected=(CASE,))
REPORT = CaseReport("a::b", CASE, measurement())


def baseline(*cases):
    return Baseline(machine={}, cases={one.key: stored(of=one) for one in cases})


def found(*stored_cases, summary=COLLECTED, reports=(REPORT,)):
    return unused_cases(baseline(*stored_cases), summary, reports)


def test_a_component_that_nothing_collects_any_more_is_unused():
    assert found(CASE, DECODER) == Unused({DECODER.key: GONE})


def test_without_a_baseline_nothing_is_looked_for():
    assert unused_cases(None, COLLECTED, [REPORT]) == Unused()
    assert found(CASE, summary=RunSummary()) == Unused()


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        (dataclasses.replace(COLLECTED, narrowed=NARROWED), "this run was narrowed to some tests"),
        (dataclasses.replace(COLLECTED, status=2), "this run ended early"),
        (dataclasses.replace(COLLECTED, stopped=True), "this run ended early"),
    ],
)
def test_a_run_that_did_not_do_everything_says_that_nobody_looked(summary, why):
    result = found(DECODER, summary=summary)
    assert result == Unused(not_looked_for=why)
    assert [line.text for line in unused_lines(result, fails=True)] == [
        f"unused baseline entries were not looked for: {why}"
    ]


def test_a_stored_case_whose_test_was_skipped_is_unused():
    summary = dataclasses.replace(COLLECTED, skipped={CASE.key: "no kernel"})
    assert found(CASE, summary=summary, reports=()) == Unused({CASE.key: "its test was skipped: no kernel"})
    assert found(summary=summary, reports=()) == Unused()


def test_a_case_that_was_judged_or_failed_in_any_way_was_used():
    summary = dataclasses.replace(COLLECTED, skipped={CASE.key: "no kernel"})
    judged = CaseReport("a::b", CASE, verdicts=(Verdict(Outcome.INVALID, "worker-timeout", "Late.", "run"),))
    for report in (REPORT, judged, CaseReport("a::b", CASE, problem="assert False")):
        assert found(CASE, summary=summary, reports=[report]) == Unused()


def test_an_unused_case_is_named_with_the_reason_and_red_where_it_fails():
    result = Unused({DECODER.key: GONE})
    text = (
        f"UNUSED {DECODER.key}: in the baseline, but nothing that these options collect measures it any more"
    )  # fmt: skip
    for fails, style in ((False, "yellow"), (True, "red")):
        (line,) = unused_lines(result, fails=fails)
        assert (line.text, line.styles) == (text, (style,))


def test_what_other_options_collect_is_not_unused():
    for other in (case(batch_size=4), case(engine="torch"), case(engine_options=(("threads", "2"),)), case(opset=19)):
        assert unused(baseline(other), [CASE]) == ()


def test_an_engine_and_its_options_are_one_thing():
    with_two = case(engine_options=(("threads", "2"),))
    torch = case(engine="torch")
    assert unused(baseline(case(component="vae_decoder", engine="torch", engine_options=(("threads", "2"),))),
                  [with_two, torch]) == ()  # fmt: skip


def test_what_an_option_names_and_no_test_collects_is_unused():
    larger = case(batch_size=4)
    (entry,) = unused(baseline(larger), [CASE], {"batch_size": ("1", "4")})
    assert entry.case == larger


def test_a_component_that_the_options_leave_out_is_not_unused():
    assert unused(baseline(DECODER), [CASE], {"component": ("unet",)}) == ()
    assert len(unused(baseline(DECODER), [CASE], {"component": ("unet", "vae_decoder")})) == 1


def test_what_the_options_name_is_told_in_the_words_of_a_case():
    engines = (EngineRequest("ort-cpu", "ort-cpu", (("threads", "2"),)), EngineRequest("torch", "torch"))
    selection = Selection(models=("sd15",), engines=engines, batch_sizes=(1, 4))
    assert asked_axes(selection) == {
        "model": ("sd15",),
        "engine": (engine_label("ort-cpu", [("threads", "2")]), engine_label("torch", [])),
        "batch_size": ("1", "4"),
    }
