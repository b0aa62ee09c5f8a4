from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import jsonschema
import pytest
from sample_values import CASE, compared, measurement, stored

from pytest_sdperf.baselines.privacy import check, identity
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.errors import OptionError, ResultsError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import EngineRequest, Selection, Settings
from pytest_sdperf.core.values import Sample
from pytest_sdperf.core.values.outcomes import Agreement
from pytest_sdperf.report.results import (
    read_results,
    results_data,
    results_of,
    results_schema,
    schema_text,
    write_results,
)
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "results.schema.json"
HOME = identity().home
RUN = RunInfo("A CPU", "cpu", machine={"cores": 2}, command=f"pytest {HOME}/suites")
ENGINE = EngineRequest("nightly", "ort-cpu", env={"HF_TOKEN": "secret"})
SETTINGS = Settings(selection=Selection(engines=(ENGINE,)), fail_on=frozenset({"inconclusive"}))
AGREEMENT = Agreement("component", "relative-l2", math.nan, 1.0, 2.0, "float16", "float32")
REPORTS = [
    compared(
        "a::b", CASE, AGREEMENT, measurement=measurement(), verdicts=judge(measurement(), stored(), policy=Policy())
    ),
    CaseReport("a::c", CASE),
]


def saved(date=""):
    summary = RunSummary(selected=1, measured=True, collected=(CASE,))
    return results_of(tuple(REPORTS), RUN, summary, Policy(), SETTINGS, date=date)


def test_the_file_holds_everything_and_nothing_private(tmp_path):
    path = tmp_path / "new" / "results.json"
    write_results(path, saved("2026-11-27T10:00Z"))
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["schema"] == 6
    assert data["date"] == "2026-11-27T10:00Z"
    assert data["run"]["command"] == "pytest ~/suites"
    assert data["run"]["machine"] == {"cores": 2}
    assert data["settings"]["fail_on"] == ["inconclusive"]
    assert [report["nodeid"] for report in data["reports"]] == ["a::b", "a::c"]
    assert convert(data["reports"][0], CaseReport, strict=False).measurement == REPORTS[0].measurement
    assert data["reports"][0]["checks"]["agreement"]["finding"][0]["error"] == "nan"
    check(data, identity())


@pytest.mark.parametrize(
    ("error", "limit", "word"),
    [
        (1.0, 2.0, "PASSED"),
        (2.0, 2.0, "PASSED"),
        (2.1, 2.0, "FAILED"),
        (math.nan, 2.0, "FAILED"),
        (1.0, math.inf, "FAILED"),
        (math.inf, math.inf, "FAILED"),
    ],
)
@pytest.mark.parametrize("level", ["component", "steps", "image", "drift"])
def test_every_agreement_says_in_a_word_what_its_numbers_mean(tmp_path, level, error, limit, word):
    agreement = dataclasses.replace(AGREEMENT, level=level, error=error, limit=limit)
    results = dataclasses.replace(saved(), reports=(compared("a::b", CASE, agreement),))
    path = tmp_path / "results.json"
    write_results(path, results)
    data = json.loads(path.read_text(encoding="utf-8"))
    (written,) = data["reports"][0]["checks"]["agreement"]["finding"]
    assert (written["outcome"], agreement.outcome.value) == (word, word)
    # It follows from the numbers, whatever a file says: one of an earlier version says nothing.
    for said in ("PASSED", "FAILED", None):
        written.pop("outcome", None)
        written |= {"outcome": said} if said else {}
        path.write_text(json.dumps(data), encoding="utf-8")
        assert read_results(path).reports[0].checks["agreement"].rows[0].outcome.value == word
        assert convert(written, Agreement, strict=False).outcome.value == word


def test_environment_values_may_be_secrets():
    data = results_data(saved())
    assert data["settings"]["selection"]["engines"][0]["env"] == ["HF_TOKEN"]
    assert "secret" not in json.dumps(data)


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "taken").write_text("")
    path = tmp_path / "taken" / "results.json"
    with pytest.raises(OptionError) as caught:
        write_results(path, saved())
    assert str(caught.value) == (
        f"cannot write the results to {path}: File exists. Name a file in a writable folder with --sdperf-json=FILE."
    )


def test_what_was_written_is_read_back(tmp_path):
    path = tmp_path / "results.json"
    write_results(path, saved("2026-11-27T10:00Z"))
    found = read_results(path)
    assert found.reports[0].measurement == REPORTS[0].measurement
    assert found.reports[0].verdicts == REPORTS[0].verdicts
    assert found.reports[0].checks["agreement"].rows == REPORTS[0].checks["agreement"].rows
    assert math.isnan(float(found.reports[0].checks["agreement"].finding[0]["error"]))
    assert (found.summary, found.policy) == (saved().summary, Policy())
    assert (found.date, found.run.machine) == ("2026-11-27T10:00Z", {"cores": 2})


@pytest.mark.parametrize("time_s", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_no_number_is_read_back_as_it_was(tmp_path, time_s):
    broken = dataclasses.replace(measurement(), samples=(Sample((time_s,)),))
    results = dataclasses.replace(saved(), reports=(CaseReport("a::b", CASE, broken),))
    write_results(tmp_path / "results.json", results)
    (found,) = read_results(tmp_path / "results.json").reports
    assert repr(found.measurement.samples[0].iterations_s) == repr((time_s,))


def test_a_field_that_a_later_version_adds_is_passed_over(tmp_path):
    data = results_data(saved())
    data["run"]["later"] = data["later"] = 1
    (tmp_path / "results.json").write_text(json.dumps(data), encoding="utf-8")
    assert read_results(tmp_path / "results.json").run.slug == "cpu"


AGAIN = "Run the tests again with --sdperf-json=FILE, and give that file."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read the results {path}: No such file or directory. {again}"),
        ("x", "results {path} are not valid JSON: line 1, column 1: Expecting value. {again}"),
        ("[]", "results {path} have schema null; this version of pytest-sdperf reads schema 6. {again}"),
        ('{"schema": 1}', "results {path} have schema 1; this version of pytest-sdperf reads schema 6. {again}"),
        ('{"schema": true}', "results {path} have schema true; this version of pytest-sdperf reads schema 6. {again}"),
        ('{"schema": 6}', "results {path} are not complete: Object missing required field `date`. {again}"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_results_is_answered_with_what_to_do(tmp_path, text, message):
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError) as caught:
        read_results(path)
    assert str(caught.value) == message.format(path=path, again=AGAIN)


def test_a_row_that_does_not_fit_below_its_headings_is_refused_with_its_place(tmp_path):
    data = json.loads(json.dumps(results_data(saved())))
    ((name, check),) = [item for report in data["reports"] for item in report["checks"].items()]
    check["rows"][0]["cells"].append("more")
    path = tmp_path / "results.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ResultsError) as caught:
        read_results(path)
    count = len(check["columns"])
    assert str(caught.value) == (
        f"results {path} are not complete: {count + 1} cells below {count} headings - at "
        f"`$.reports[0].checks.{name}.rows[0].cells`. {AGAIN}"
    )


def test_the_published_schema_is_the_one_of_the_code():
    write = "from pytest_sdperf.report.results import schema_text; print(schema_text(), end='')"
    written = SCHEMA_FILE.read_text(encoding="utf-8")
    assert written == schema_text(), f'type: python -c "{write}" > docs/results.schema.json'


def test_the_file_obeys_the_published_schema():
    validator = jsonschema.Draft202012Validator(results_schema())
    data = json.loads(json.dumps(results_data(saved())))
    validator.validate(data)
    data["reports"][0]["measurement"]["samples"][0]["iterations_s"] = ["fast"]
    assert not validator.is_valid(data)
