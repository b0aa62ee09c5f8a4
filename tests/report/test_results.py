from __future__ import annotations

import json
import math

import pytest
from sample_values import CASE, measurement, stored

from pytest_sdperf.baselines.privacy import check, identity
from pytest_sdperf.errors import OptionError
from pytest_sdperf.floor import Floor
from pytest_sdperf.judging.policy import Policy
from pytest_sdperf.judging.verdict import judge
from pytest_sdperf.outcomes import Agreement
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.results import results_data, write_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.settings import EngineRequest, Selection, Settings

HOME = identity().home
RUN = RunInfo("A CPU", "cpu", machine={"cores": 2}, command=f"pytest {HOME}/suites")
ENGINE = EngineRequest("nightly", "ort-cpu", env={"HF_TOKEN": "secret"})
SETTINGS = Settings(selection=Selection(engines=(ENGINE,)), fail_on=frozenset({"inconclusive"}))
AGREEMENT = Agreement("component", "relative-l2", math.nan, 1.0, 2.0, "float16", "float32")
REPORTS = [
    CaseReport("a::b", CASE, measurement(), (AGREEMENT,), judge(measurement(), stored(), policy=Policy())),
    CaseReport("a::c", CASE),
]


def test_the_file_holds_everything_and_nothing_private(tmp_path):
    path = tmp_path / "new" / "results.json"
    write_results(path, REPORTS, RUN, SETTINGS, date="2026-11-27T10:00Z")
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["schema"] == 1
    assert data["date"] == "2026-11-27T10:00Z"
    assert data["run"]["command"] == "pytest ~/suites"
    assert data["run"]["machine"] == {"cores": 2}
    assert data["settings"]["fail_on"] == ["inconclusive"]
    assert [report["nodeid"] for report in data["reports"]] == ["a::b", "a::c"]
    assert CaseReport.from_json(data["reports"][0]).measurement == REPORTS[0].measurement
    assert data["reports"][0]["agreements"][0]["error"] == "nan"
    check(data, identity())


def test_a_latency_is_told_as_a_share_of_what_the_device_could_reach():
    floor = Floor(1.6e12, 2.5e11, 1.7e9, seconds=2e-3, basis="measured", bound_s=1.6e-3)
    reports = [CaseReport("a::b", CASE, measured) for measured in (measurement(floor=floor), measurement())]
    data = results_data([*reports, CaseReport("a::c", CASE)], RUN, SETTINGS, date="")
    assert [report["reached"] for report in data["reports"]] == [pytest.approx(0.2), None, None]
    assert data["reports"][0]["measurement"]["floor"]["bound_s"] == 1.6e-3


def test_environment_values_may_be_secrets():
    data = results_data(REPORTS, RUN, SETTINGS, date="")
    assert data["settings"]["selection"]["engines"][0]["env"] == ["HF_TOKEN"]
    assert "secret" not in json.dumps(data)


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "taken").write_text("")
    path = tmp_path / "taken" / "results.json"
    with pytest.raises(OptionError) as caught:
        write_results(path, REPORTS, RUN, SETTINGS, date="")
    assert str(caught.value) == (
        f"cannot write the results to {path}: File exists. Name a file in a writable folder with --sdperf-json=FILE."
    )
