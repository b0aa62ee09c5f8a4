"""A run with a planted fault is unmistakable and harmless: what it says, what it refuses, and that it keeps nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from sample_values import compared

from pytest_sdperf.cases.options.conflicts import compatible
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.reading import SettingsParser
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.faults import builtins, known
from pytest_sdperf.faults.fault import Detection, Fault, FaultStage
from pytest_sdperf.faults.outcome import is_found, outcome_of
from pytest_sdperf.report.header import altered_lines
from pytest_sdperf.report.run_info import RunInfo

NAME = "runtime-answers-to-first-inputs"
PLANT = OptionValue(NAME, "--sdperf-plant")
CATALOG = Catalog()
builtins.pytest_sdperf_register(CATALOG)
CASE = Case("shapes", "text_encoder", "ort-cpu", "fp32")


def read(answer: OptionValue = PLANT, device_kind: str = "cpu", **others: OptionValue) -> str:
    answers = {"plant": answer, **{name.replace("_", "-"): said for name, said in others.items()}}
    reader = SettingsParser(compatible(answers), CATALOG, {}, device_kind, started_in=Path(), root=Path())
    return reader.value("plant")


def test_a_fault_is_named():
    assert read() == NAME


def test_an_unknown_fault_is_refused_with_what_is_like_it():
    with pytest.raises(UnknownNameError) as refused:
        read(OptionValue("runtime-answers-to-first", "--plant"))
    assert str(refused.value) == (
        f"unknown fault 'runtime-answers-to-first'. Did you mean '{NAME}'? Type `sdperf faults` to see all "
        f"{len(known.FAULTS)}."
    )


def test_what_only_a_gpu_can_show_is_refused_on_a_cpu():
    answer = OptionValue("environment-shared-with-others", "--plant")
    assert read(answer, "cuda") == "environment-shared-with-others"
    with pytest.raises(OptionError) as refused:
        read(answer)
    assert str(refused.value) == (
        "--plant=environment-shared-with-others: this is about what only a GPU can show, and this run is on a CPU. Add "
        "--sdperf-gpu=auto where there is a GPU, or plant another fault: `sdperf faults` lists them."
    )


@pytest.mark.parametrize(
    ("name", "text", "shown", "why"),
    [
        ("update_baselines", "true", "--x", "nothing of such a run is kept"),
        ("resume", "true", "--x", "what an interrupted run measured is without it"),
        ("plan", "true", "--x", "a plan runs nothing that could be altered"),
        ("selftest", "true", "--x", "a self-test measures what is sound"),
        ("inprocess", "true", "--x", "it may end the process that it is in"),
        ("ab", "python", "--x=python", "both sides would have it"),
        ("ab_engine", "torch", "--x=torch", "both sides would have it"),
        ("ab_optimization", "fp16", "--x=fp16", "both sides would have it"),
        ("pipeline", "mypipe:make", "--x=mypipe:make", "a pipeline of your own is tested as it is"),
    ],
)
def test_what_does_not_go_with_a_fault_is_refused(name, text, shown, why):
    with pytest.raises(OptionError) as refused:
        read(**{name: OptionValue(text, "--x")})
    assert str(refused.value) == (
        f"--sdperf-plant={NAME} and {shown} do not go together: {why}. Leave one of them out."
    )


def test_a_switch_that_is_off_goes_with_a_fault():
    assert read(resume=OptionValue("false", "[tool.sdperf] resume")) == NAME


def report(*verdicts: Verdict) -> CaseReport:
    return CaseReport("test_x.py::test_x", CASE, verdicts=verdicts)


RIGHT = Verdict(Outcome.INVALID, "answers-wrong", "It is wrong.", "changed-inputs")
OTHER = Verdict(Outcome.INVALID, "worker-crash", "It died.", "measurement")
FAULT = known.get(NAME)


def test_what_was_found_is_said():
    assert outcome_of(FAULT, [report(RIGHT), report(RIGHT)], status=10, unused=False) == (
        f"PLANTED {NAME}, and it was found by 2 tests: INVALID [answers-wrong]."
    )


def test_what_was_not_found_is_said_with_the_command_that_tells_more():
    assert outcome_of(FAULT, [report()], status=0, unused=False) == (
        f"PLANTED {NAME}, and nothing turned red: it must be INVALID [answers-wrong]. Type `sdperf faults {NAME}` to "
        "see "
        f"how it is found."
    )


def test_something_else_that_is_red_does_not_count():
    assert outcome_of(FAULT, [report(OTHER)], status=10, unused=False) == (
        f"PLANTED {NAME}, and what turned red is not that: it must be INVALID [answers-wrong]. Type `sdperf faults "
        f"{NAME}` to see how it is found."
    )


def test_a_disagreement_has_to_be_at_its_level():
    agreement = Agreement("image", "relative-l2", 1.0, 0.1, 0.2, "float32", "float64", "image[0]")
    fault = known.get("weights-quantized")
    assert not is_found(fault, [compared("test_x.py::test_x", CASE, agreement)], unused=False)
    component = dataclasses.replace(agreement, level="component")
    assert is_found(fault, [compared("test_x.py::test_x", CASE, component)], unused=False)
    within = dataclasses.replace(component, error=0.1)
    assert not is_found(fault, [compared("test_x.py::test_x", CASE, within)], unused=False)


def test_an_unused_case_is_found_without_any_report():
    assert is_found(known.get("harness-case-vanished"), [], unused=True)
    assert not is_found(known.get("harness-case-vanished"), [], unused=False)


def test_a_report_begins_with_the_fault():
    run = RunInfo("A card", "h200", altered=CATALOG.alteration(NAME).told)
    assert " ".join(line.text.strip() for line in altered_lines(run, width=80)) == (
        f"PLANTED {NAME}: {FAULT.about} It went into the loaded component, in its worker process."
    )
    assert list(altered_lines(dataclasses.replace(run, altered=""), width=80)) == []


def test_words_stand_for_numbers_and_any_text_and_nothing_else():
    pattern = Detection("agreement", "INVALID", "It took # s; the worst is x[...].").pattern
    assert pattern.fullmatch("It took 1.5e-03 s; the\n  worst is x[1, 2].")
    assert not pattern.fullmatch("It took long s; the worst is x[1].")
    assert not pattern.fullmatch("It took 1 s; the worst was x[1].")


@pytest.mark.parametrize(
    ("verdict", "status"), [("REGRESSED", 1), ("FAILED", 1), ("INVALID", 10), ("UNUSED", 12), ("REFUSED", 4)]
)
def test_each_verdict_has_its_exit_status(verdict, status):
    assert Detection("pipelines", verdict, "").status == status


def test_the_command_has_what_the_fault_needs():
    found = Detection("pipelines", "INVALID", "It is wrong.", "wrong")
    fault = Fault(
        "runtime-x", "It is wrong.", FaultStage.RUNNER, lambda runner: runner, found, options="--engine=torch"
    )
    assert fault.command == "pytest suites/test_pipelines.py --engine=torch --plant=runtime-x"
    assert fault.preparation == ""
    stored = dataclasses.replace(fault, against_baseline=True)
    assert stored.preparation == "pytest suites/test_pipelines.py --engine=torch --update-baselines --reason=prepared"
