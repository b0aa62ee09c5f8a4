"""Saved results are judged again, no less strictly than in their run."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_values import CASE, case, compared, measurement, session, stored

from pytest_sdperf.baselines import published, shipped
from pytest_sdperf.baselines.privacy import identity
from pytest_sdperf.baselines.sources import BaselineFiles, Source
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.judging.policy import Policy, fail_on_field
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.cli import gate_run as gate
from pytest_sdperf.cli.gate_run import check_device, gate_lines, judge_saved, stricter
from pytest_sdperf.core.errors import ResultsError
from pytest_sdperf.core.settings import FAIL_ON
from pytest_sdperf.core.tolerances import Override
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.report.results import SavedResults, read_results, write_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import NARROWED, RunSummary
from pytest_sdperf.report.unused import SILENT

MACHINE = {"cores": 2, "pool": "default"}
POLICY = Policy()
RUN = RunInfo("A card", "h200", "h200", MACHINE, command="pytest suites --gpu=h200")
WHOLE = RunSummary(selected=1, measured=True, collected=(CASE,))
BASELINE = Baseline(machine=MACHINE, cases={CASE.key: stored()})
STEADY = Baseline(machine=MACHINE, cases={CASE.key: stored(*[session(9.99, 10.0, 10.01)] * 5)})
NOISY = (8.0, 10.0, 12.0)
FUSED = CaseReport("a::fusions", CASE, verdicts=(Verdict(Outcome.HELD, "as-derived", "Right.", "fusions"),))
RIGHT = Agreement("component", "relative-l2", 1e-4, 1e-4, 2e-4, "float16", "float32")
COMPARED = compared("a::agrees", CASE, RIGHT)
LEFT_OUT = CaseReport("a::left", CASE, verdicts=(Verdict(Outcome.NOT_MEASURED, "time-budget", "Late.", "measurement"),))
LOST = CaseReport("a::lost", CASE, verdicts=(Verdict(Outcome.REGRESSED, "operators-lost", "Lost.", "fusions"),))


@pytest.fixture(autouse=True, scope="module")
def read_once():
    """What comes with the project, which takes longer to read than all the rest, is the same for every example."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gate, "measured", functools.cache(shipped.measured))
        patched.setattr(gate.published, "beside_baselines", functools.cache(published.beside_baselines))
        yield


def report(*times_ms, name="a::speed", policy=POLICY, **fields):
    measured = measurement(*times_ms, **fields)
    return CaseReport(name, measured.case, measured, verdicts=judge(measured, None, policy=policy), policy=policy)


def saved(*reports, summary=WHOLE, run=RUN, policy=POLICY):
    return SavedResults(date="2026-11-28T10:00Z", run=run, summary=summary, policy=policy, settings={}, reports=reports)


FILE = Path("baselines/h200.json")


def sources(baseline):
    return BaselineFiles(FILE, (Source(FILE, baseline),) if baseline else ())


def status(results, baseline=BASELINE, **asked):
    policy = stricter(results.policy, **{"fail_on": None, **asked})
    return judge_saved(results, sources(baseline), policy=policy).status


SLOW = report(14.9, 15.0, 15.1)


@pytest.mark.parametrize(
    ("results", "baseline", "asked", "expected"),
    [
        (saved(report()), BASELINE, {}, 0),
        (saved(SLOW), BASELINE, {}, 1),
        (saved(report()), None, {}, 0),
        (saved(report()), None, {"fail_on": ("new",)}, 12),
        (saved(report(*NOISY)), BASELINE, {}, 0),
        (saved(report(*NOISY)), BASELINE, {"fail_on": ("inconclusive",)}, 11),
        (saved(report(10.0)), BASELINE, {}, 10),
        (saved(report(health=("too hot",))), BASELINE, {}, 10),
        (saved(report()), Baseline(machine={"cores": 3}, cases=BASELINE.cases), {}, 10),
        (saved(report(), LOST), BASELINE, {}, 1),
        (saved(report(), summary=dataclasses.replace(WHOLE, failures=1)), BASELINE, {}, 1),
        (saved(report(), summary=dataclasses.replace(WHOLE, status=2)), BASELINE, {}, 10),
        (saved(report(), summary=dataclasses.replace(WHOLE, status=1, stopped=True)), BASELINE, {}, 10),
        (saved(SLOW, summary=dataclasses.replace(WHOLE, status=2)), BASELINE, {}, 1),
        (saved(FUSED, summary=RunSummary()), BASELINE, {}, 0),
        (saved(FUSED, summary=RunSummary(selected=1)), BASELINE, {}, 10),
        (saved(COMPARED, summary=RunSummary()), BASELINE, {}, 0),
        (saved(CaseReport("a::left", CASE), summary=RunSummary()), BASELINE, {}, 10),
        (saved(LEFT_OUT, summary=RunSummary()), BASELINE, {}, 10),
        (saved(LEFT_OUT, summary=RunSummary()), BASELINE, {"fail_on": ("not-measured",)}, 11),
        (saved(summary=RunSummary()), BASELINE, {}, 10),
        (saved(summary=WHOLE), BASELINE, {}, 10),
        (saved(summary=RunSummary(selected=3)), BASELINE, {}, 10),
        (saved(SLOW, summary=dataclasses.replace(WHOLE, expected_failures=("a::speed",))), BASELINE, {}, 0),
    ],
)
def test_the_exit_status_is_the_one_of_a_run(results, baseline, asked, expected):
    assert status(results, baseline, **asked) == expected


def test_what_the_run_was_told_counts_where_nothing_else_is_asked():
    strict = Policy(fail_on_new=True, fail_on_inconclusive=True)
    assert status(saved(report(), policy=strict), None) == 12
    assert status(saved(report(), policy=strict), None, fail_on=("inconclusive",)) == 0
    assert status(saved(report(*NOISY), policy=strict)) == 11
    assert status(saved(report(*NOISY), policy=strict), fail_on=()) == 0


@pytest.mark.parametrize(("own", "outcome"), [(Policy(), Outcome.REGRESSED), (Policy(min_effect=0.08), Outcome.HELD)])
def test_the_smallest_effect_of_a_test_stays(own, outcome):
    gated = judge_saved(saved(report(10.49, 10.5, 10.51, policy=own)), sources(STEADY), policy=Policy())
    assert [verdict.outcome for verdict in gated.reports[0].verdicts if verdict.metric == "latency"] == [outcome]


def test_verdicts_are_new_and_what_only_a_test_can_find_out_stays():
    both = dataclasses.replace(report(), verdicts=(*report().verdicts, *FUSED.verdicts))
    (again,) = judge_saved(saved(both), sources(BASELINE), policy=POLICY).reports
    fresh = judge(report().measurement, BASELINE.cases[CASE.key], policy=POLICY)
    assert again.verdicts == (*FUSED.verdicts, *fresh)


def test_a_stored_case_that_nothing_measures_fails_where_that_is_asked():
    gone = case(component="vae_decoder")
    baseline = Baseline(machine=MACHINE, cases={**BASELINE.cases, gone.key: stored(session(), of=gone)})
    results = saved(report())
    assert status(results, baseline) == 0
    assert status(results, baseline, fail_on=("unused",)) == 12
    narrowed = saved(report(), summary=dataclasses.replace(WHOLE, narrowed=NARROWED))
    assert status(narrowed, baseline, fail_on=("unused",)) == 0
    assert judge_saved(narrowed, sources(baseline), policy=POLICY).unused.not_looked_for == NARROWED


@given(gone=st.sets(st.integers(0, 7), min_size=1))
def test_what_the_baseline_has_and_the_results_of_the_same_selection_lack_is_named(gone):
    cases = [case(batch_size=number + 1) for number in range(8)]
    baseline = Baseline(machine=MACHINE, cases={one.key: stored(of=one) for one in cases})
    there = [report(name=f"a::{number}", case=one) for number, one in enumerate(cases) if number not in gone]
    results = saved(*there, summary=dataclasses.replace(WHOLE, selected=8, collected=tuple(cases)))
    gated = judge_saved(results, sources(baseline), policy=POLICY)
    assert gated.unused.found == {cases[number].key: SILENT for number in gone}
    lines = [line.text for line in gate_lines(gated, results=Path("r.json"), width=100)]
    assert [line for line in lines if line.startswith("UNUSED")] == [
        f"UNUSED {key}: in the baseline, but its test brought no result" for key in gated.unused.found
    ]
    assert lines[1] == (
        f"INVALID results of {plural(len(gone), 'case')} are missing that the run collected and the baseline has: what "
        "a run writes holds every test"
    )
    assert (status(results, baseline), status(results, baseline, fail_on=("unused",))) == (10, 10)
    # Where the run skipped them, was narrowed to others or ended early, or nothing is stored, nothing is missing.
    skipped = {cases[number].key: "not today" for number in gone}
    for changes in ({"skipped": skipped}, {"narrowed": NARROWED}):
        whole = saved(*there, summary=dataclasses.replace(results.summary, **changes))
        assert status(whole, baseline) == (10 if len(gone) == 8 else 0)
    new = Baseline(machine=MACHINE, cases={one.case.key: stored(of=one.case) for one in there})
    assert status(results, new) == (10 if len(gone) == 8 else 0)


def test_a_test_that_measured_nothing_is_there_and_its_stored_case_is_unused():
    other = case(batch_size=4)
    baseline = Baseline(machine=MACHINE, cases={one.key: stored(of=one) for one in (CASE, other)})
    collected = dataclasses.replace(WHOLE, selected=2, collected=(CASE, other))
    results = saved(report(), CaseReport("a::asked for nothing", other), summary=collected)
    gated = judge_saved(results, sources(baseline), policy=POLICY)
    assert (gated.problems, gated.unused.found) == ((), {other.key: SILENT})
    assert (status(results, baseline), status(results, baseline, fail_on=("unused",))) == (0, 12)


@pytest.mark.parametrize("name", ["h200", "h200-sxm"])
def test_a_device_is_named_by_its_slug_or_family(name):
    check_device(saved(run=RunInfo("", "h200-sxm", "h200")), name, path=Path("r.json"))


def test_a_processor_may_be_called_cpu():
    check_device(saved(run=RunInfo("", "cpu-amd-2c"), policy=Policy(on_cpu=True)), "cpu", path=Path("r.json"))


def test_results_of_another_device_are_refused():
    with pytest.raises(ResultsError) as caught:
        check_device(saved(), "a100", path=Path("r.json"))
    assert str(caught.value) == (
        "results r.json were measured on h200, and --gpu=a100 names another device. Give --gpu=h200, or results of "
        "a100."
    )


def test_every_verdict_that_may_fail_can_be_asked_for():
    fields = {field.name for field in dataclasses.fields(Policy) if field.name.startswith("fail_on_")}
    assert {fail_on_field(name) for name in FAIL_ON} == fields


def test_tolerances_of_the_run_are_listed_again():
    override = Override("latency", 0.08, "two algorithms", "[[tool.sdperf.tolerances]] 1")
    one = dataclasses.replace(report(), overrides=(override,), policy=Policy(min_effect=0.08))
    gated = judge_saved(saved(one), sources(None), policy=POLICY)
    lines = gate_lines(gated, results=Path("r.json"), width=100)
    text = "  latency 8 % for 1 case, says [[tool.sdperf.tolerances]] 1: two algorithms"
    assert [line.text for line in lines].count(text) == 1


def test_a_saved_command_can_be_typed_as_it_was_though_no_home_is_saved(tmp_path):
    home, path = identity().home, tmp_path / "r.json"
    command = f"pytest {home}/suites '--json={home}/my results.json' /mnt{home}/x"
    write_results(path, saved(report(health=("hot",)), run=dataclasses.replace(RUN, command=command)))
    assert f" {home}/" not in path.read_text()
    found = judge_saved(read_results(path), sources(None), policy=POLICY)
    assert [line.text for line in gate_lines(found, results=path, width=100)][-1] == f"{command} --lf"


def test_the_report_is_the_one_of_a_run_and_ends_with_how_to_accept():
    lines = [
        line.text
        for line in gate_lines(
            judge_saved(saved(report()), sources(None), policy=POLICY),
            results=Path("r.json"),
            width=100,
        )
    ]
    assert lines[:4] == [
        "results    r.json of 2026-11-28T10:00Z",
        "verdicts of 1 case: 1 NEW",
        "device     A card (h200), 2 cores",
        "baselines  baselines/h200.json: none yet",
    ]
    assert "NEW 1 case without a baseline; nothing was compared" in lines
    assert lines[-2:] == ["next, accept the result:", "sdperf baselines accept r.json"]


def test_what_is_wrong_with_the_results_as_a_whole_is_said_first():
    gated = judge_saved(saved(summary=RunSummary(status=2, selected=2)), sources(None), policy=POLICY)
    lines = list(gate_lines(gated, results=Path("r.json"), width=100))
    assert [line.text for line in lines[1:3]] == [
        "INVALID the run ended before its last test (exit status 2 of pytest): results are missing",
        "INVALID nothing was measured: none of 2 selected tests came to it",
    ]


def test_pairs_keep_the_verdicts_of_their_run():
    lost = Verdict(Outcome.REGRESSED, "pairs-slower", "B is slower.", "latency")
    pairs = CaseReport("a::speed", CASE, verdicts=(lost,))
    gone = Baseline(machine=MACHINE, cases={case(component="vae_decoder").key: stored()})
    results = saved(pairs, run=dataclasses.replace(RUN, pairs=True))
    gated = judge_saved(results, sources(gone), policy=Policy(fail_on_unused=True))
    assert (gated.reports, gated.status, gated.unused.found) == ((pairs,), 1, {})


def test_another_driver_is_invalid_and_the_last_line_is_the_command_that_starts_anew():
    baseline = Baseline(machine={**MACHINE, "driver": "580"}, cases=BASELINE.cases)
    run = dataclasses.replace(RUN, machine={**MACHINE, "driver": "590"})
    gated = judge_saved(saved(report(), run=run), sources(baseline), policy=POLICY)
    assert gated.status == 10
    lines = [line.text for line in gate_lines(gated, results=Path("r.json"), width=100)]
    assert lines[-2:] == [
        "next, start anew under this driver:",
        'sdperf baselines accept r.json --re-anchor --reason="new driver"',
    ]


def test_every_file_that_judges_is_named_with_what_it_judges():
    new = case(batch_size=4)
    acme = Baseline(machine=MACHINE, cases={one.key: stored(of=one) for one in (CASE, new)})
    both = BaselineFiles(FILE, (Source(FILE, BASELINE), Source(Path("acme/h200.json"), acme)))
    gated = judge_saved(saved(report(), report(14.9, 15.0, 15.1, case=new)), both, policy=POLICY)
    assert [one.outcome for one in gated.reports] == [Outcome.HELD, Outcome.REGRESSED]
    lines = [line.text for line in gate_lines(gated, results=Path("r.json"), width=120)]
    assert lines[3] == (
        "baselines  baselines/h200.json: 1 case, newest of 2026-11-20; acme/h200.json: 1 case, newest of 2026-11-20"
    )
