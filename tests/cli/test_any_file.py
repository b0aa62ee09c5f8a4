"""Files of any content: a verdict, or an error that says what is wrong with the file, and never a traceback."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_shapes import Shapes, damaged
from sample_values import CASE, measurement, stored

from pytest_sdperf import cli
from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.acceptance.sessions import Provenance, session_of
from pytest_sdperf.baselines import published, shipped
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.baselines.stored import Baseline, Session, StoredCase
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.cli import gate_run as gate
from pytest_sdperf.cli.baselines import look
from pytest_sdperf.core.errors import ResultsError
from pytest_sdperf.core.values import Case, Facts, Measurement, Sample, to_json
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.report.results import SCHEMA, SavedResults, read_results, results_data
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary

MACHINE = {"cores": 2}
CASES = [CASE, dataclasses.replace(CASE, component="pipeline", steps=4, scheduler="pndm")]
TIMES = st.lists(st.sampled_from([0.0098, 0.01, 0.0101]), min_size=1, max_size=2)
SAMPLE = {(Sample, "iterations_s"): TIMES, (Sample, "facts"): Shapes({}).of(Facts)}
FUZZ = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def results() -> st.SearchStrategy:
    """Results that could be those of a run with the baseline of `folder`, as far as their types go."""
    fixed = {
        **SAMPLE,
        Case: st.sampled_from([to_json(case) for case in CASES]),
        (SavedResults, "schema"): st.just(SCHEMA),
        (SavedResults, "settings"): st.just({}),
        (SavedResults, "run"): st.just(to_json(RunInfo("A card", "h200", "h200", MACHINE))),
        (SavedResults, "policy"): st.just(to_json(Policy())),
        (CaseReport, "explanation"): st.none(),
        (CaseReport, "policy"): st.none(),
        (Measurement, "samples"): st.lists(Shapes(SAMPLE).of(Sample), min_size=3, max_size=3),
        (Measurement, "failure"): st.none(),
        (Measurement, "health"): st.just([]),
        (Measurement, "subject"): st.just({}),
    }
    fixed[SavedResults, "reports"] = st.lists(Shapes(dict(fixed)).of(CaseReport), min_size=1, max_size=2)
    return Shapes(fixed).of(SavedResults)


def baselines() -> st.SearchStrategy:
    """Baseline files, and candidates, of these cases."""
    fixed = {
        **SAMPLE,
        (Session, "subject"): st.just({}),
        (Session, "policy"): st.just(to_json(Policy())),
        (Session, "samples"): st.lists(Shapes(SAMPLE).of(Sample), min_size=1, max_size=2),
    }
    session = Shapes(dict(fixed)).of(Session)

    def of(case: Case) -> st.SearchStrategy:
        of_case = {
            (StoredCase, "case"): st.just(to_json(case)),
            (StoredCase, "sessions"): st.lists(session, min_size=1, max_size=2),
        }
        return Shapes({**fixed, **of_case}).of(StoredCase)

    cases = st.fixed_dictionaries({}, optional={case.key: of(case) for case in CASES})
    return st.fixed_dictionaries({"schema": st.sampled_from([1, 2]), "machine": st.just(MACHINE), "cases": cases})


def candidates(folder, baselines):
    """Return the file of the candidates for a folder of baselines."""
    found = State(folder / "state", folder / baselines).candidates
    found.mkdir(parents=True, exist_ok=True)
    return found / "h200.json"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a baseline. What comes with the project is read once: it is the same for every example."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gate, "measured", functools.cache(shipped.measured))
    monkeypatch.setattr(look, "measured_folder", lambda: tmp_path / "nothing is shipped")
    monkeypatch.setattr(gate.published, "beside_baselines", functools.cache(published.beside_baselines))
    (tmp_path / "baselines").mkdir()
    candidates(tmp_path, "baselines")
    known = Baseline(machine=MACHINE, cases={case.key: stored(of=case) for case in CASES})
    (tmp_path / "baselines" / "h200.json").write_text(to_text(known), encoding="utf-8")
    return tmp_path


def judged(folder, data) -> list[str]:
    """Judge results and print them in both ways; return the codes of their verdicts."""
    path = folder / "results.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    saved = read_results(path)
    sources = BaselineFiles.of_device(folder / "baselines", (), slug="h200", machine=MACHINE)
    gated = gate.judge_saved(saved, sources, policy=saved.policy)
    assert "\n".join(line.text for line in gate.gate_lines(gated, results=path, width=100))
    assert gate.gate_markdown(gated, results=path)
    assert gated.status in {0, 1, 10, 11, 12}
    return [verdict.code for report in gated.reports for verdict in report.verdicts]


@FUZZ
@given(damaged(results()))
def test_results_of_any_content_get_a_verdict_or_are_refused(folder, data):
    with contextlib.suppress(ResultsError):
        judged(folder, data)


@FUZZ
@given(results())
def test_of_results_of_any_content_nothing_is_held_or_lost_where_nothing_is_stored(folder, data):
    (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
    with contextlib.suppress(ResultsError):
        saved = read_results(folder / "results.json")
        measured = [report.measurement for report in saved.reports if report.measurement]
        found = {verdict.outcome for one in measured for verdict in judge(one, None, policy=saved.policy)}
        assert not found & {Outcome.HELD, Outcome.IMPROVED, Outcome.REGRESSED, Outcome.GAP}


def of_one(measured: Measurement, **policy) -> dict:
    report = CaseReport("a::b", CASE, measured, verdicts=judge(measured, None, policy=Policy()))
    summary = RunSummary(selected=1, measured=True, collected=(CASE,))
    run = RunInfo("A card", "h200", "h200", MACHINE)
    data = results_data(
        SavedResults(
            date="2026-11-28T10:00Z", run=run, summary=summary, policy=Policy(), settings={}, reports=(report,)
        )
    )
    data["policy"].update(policy)
    return data


@pytest.mark.parametrize(
    ("times", "code"),
    [
        ([], "latency-missing"),
        ([0.0], "latency-not-positive"),
        ([-0.01], "latency-not-positive"),
        ([float("nan")], "latency-not-positive"),
        ([float("inf")], "latency-not-positive"),
        (None, "samples-missing"),
    ],
)
def test_times_that_no_run_can_take_are_invalid(folder, times, code):
    whole = measurement()
    samples = () if times is None else (dataclasses.replace(whole.samples[0], iterations_s=tuple(times)),) * 3
    floor = {"flops": 1e9, "attention_flops": 0.0, "bytes": 1e6, "seconds": 1e-3, "basis": "measured"}
    data = of_one(dataclasses.replace(whole, samples=samples))
    data["reports"][0]["measurement"]["floor"] = floor
    assert judged(folder, data) == [code]


FLOOR = {"flops": 1e9, "attention_flops": 0.0, "bytes": 1e6, "seconds": 1e-3, "basis": "measured"}
UNREAL = st.sampled_from([0.0, -0.0, -0.01, float("nan"), float("inf"), float("-inf")])
REAL = st.sampled_from([0.0099, 0.01, 0.0101])


@FUZZ
@given(
    st.lists(st.lists(st.one_of(REAL, UNREAL), max_size=3), min_size=2, max_size=2),
    st.one_of(st.just([]), st.lists(UNREAL, min_size=1, max_size=3)),
    st.sampled_from([None, FLOOR]),
)
def test_one_process_with_an_unreal_time_makes_a_measurement_invalid(folder, others, unreal, floor):
    whole = measurement()
    samples = tuple(dataclasses.replace(whole.samples[0], iterations_s=tuple(times)) for times in (unreal, *others))
    data = of_one(dataclasses.replace(whole, samples=samples))
    data["reports"][0]["measurement"]["floor"] = floor
    (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
    assert cli.main(["gate", "results.json", "--gpu=h200", "--baselines=baselines"]) == 10


# Command -> the rest of its command line.
COMMANDS = {
    "list": ("--state-dir=state",),
    "show": ("unet", "--state-dir=state"),
    "diff": ("any/h200.json", "baselines/h200.json", "--state-dir=state"),
    "export": ("--csv",),
    "prune": ("--keep=1", "--write", "--state-dir=state"),
    "accept": ("--only=unet", "--state-dir=state"),
}


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "9" * 400])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_baseline_with_a_number_that_is_none(folder, monkeypatch, capsys, command, number):
    monkeypatch.setattr(sys, "path", [*sys.path])  # pytest adds to it
    whole = to_text(Baseline(machine=MACHINE, cases={CASE.key: stored()}))
    text = whole.replace('"load_s": ', f'"load_s": {number}, "later_s": ', 1)
    candidates(folder, "any").write_text(whole, encoding="utf-8")
    file = folder / "any" / "h200.json"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    assert cli.main(["baselines", command, *COMMANDS[command], "--baselines=any"]) == 4
    shown = number if len(number) < 20 else f"{number[:20]}..."
    place = f'$.cases["{CASE.key}"].anchor.samples[0].load_s'
    assert capsys.readouterr().err == (
        f"ERROR: baseline file any/h200.json is not valid JSON: {shown} is not a number that a measurement can have - "
        f"at `{place}`. Nothing was written to it. Restore it from version control (git checkout -- h200.json), or "
        f"move it away and record it again with --sdperf-update-baselines.\n"
    )
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"min_effect": -1.0}, "the limit `min_effect` is -1, and limits are 0 or more - at `$.policy`"),
        ({"build_effect": "nan"}, "the limit `build_effect` is nan, and limits are 0 or more - at `$.policy`"),
    ],
)
def test_limits_that_nothing_can_be_judged_by_are_refused(folder, damage, why):
    with pytest.raises(ResultsError) as caught:
        judged(folder, of_one(measurement(), **damage))
    assert str(caught.value) == (
        f"results {folder}/results.json are not complete: {why}. Run the tests again with --sdperf-json=FILE, and give "
        f"that file."
    )


def test_facts_of_another_type_are_refused_with_their_place(folder):
    data = of_one(measurement())
    data["reports"][0]["measurement"]["samples"][1]["facts"] = {"kernels": {"gemm": {"count": "5", "seconds": 1.0}}}
    with pytest.raises(ResultsError) as caught:
        judged(folder, data)
    assert str(caught.value) == (
        f"results {folder}/results.json are not complete: Expected `float`, got `str` - at "
        f"`$.reports[0].measurement.samples[1].facts.kernels[...].count`. Run the tests again with --sdperf-json=FILE, "
        f"and give that file."
    )


@FUZZ
@given(damaged(baselines()), damaged(baselines()))
def test_baselines_of_any_content_are_shown_or_refused(folder, capsys, first, second):
    (folder / "any").mkdir(exist_ok=True)
    for file, data in (("any/a.json", first), ("any/b.json", second), (candidates(folder, "any"), second)):
        (folder / file).write_text(json.dumps(data), encoding="utf-8")
    for command in (
        ("list", "--state-dir=state"),
        ("show", "unet", "--state-dir=state"),
        ("diff", "any/a.json", "any/b.json", "--state-dir=state"),
        ("export", "--csv"),
        ("prune", "--keep=1", "--write", "--state-dir=state"),
    ):
        assert cli.main(["baselines", *command, "--baselines=any"]) in {0, 4}
        told = capsys.readouterr()
        assert all(line.startswith("ERROR: ") for line in told.err.splitlines())


@settings(FUZZ, max_examples=8)
@given(damaged(baselines()))
def test_candidates_of_any_content_are_accepted_or_refused(folder, monkeypatch, capsys, data):
    monkeypatch.setattr(sys, "path", [*sys.path])  # pytest adds to it
    candidates(folder, "baselines").write_text(json.dumps(data), encoding="utf-8")
    for how in ((), ("--reason=because", "--re-anchor")):
        places = ("--baselines=baselines", "--state-dir=state", "--only=unet")
        assert cli.main(["baselines", "accept", *places, *how]) in {0, 1, 4}
    capsys.readouterr()


def test_a_candidate_whose_limits_cannot_be_read_is_refused(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])  # pytest adds to it
    session = session_of(measurement(), Provenance("h200", MACHINE, "2026-11-28T10:00Z", ""))
    data = json.loads(to_text(Baseline(machine=MACHINE, cases={CASE.key: stored(session)})))
    data["cases"][CASE.key]["sessions"][0]["policy"] = {"processes": "three"}
    candidates(folder, "baselines").write_text(json.dumps(data), encoding="utf-8")
    assert cli.main(["baselines", "accept", "--baselines=baselines", "--state-dir=state", "--only=unet"]) == 1
    assert "An earlier version of pytest-sdperf kept it, and not how strictly it was judged." in capsys.readouterr().out
