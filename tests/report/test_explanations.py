from __future__ import annotations

import json

import pytest
from sample_values import case, fused

from pytest_sdperf.baselines.privacy import check, identity
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.fusing.explain import Explanation, Unfused
from pytest_sdperf.report.explanations import explanations_data, write_explanations
from pytest_sdperf.report.findings import finding_lines
from pytest_sdperf.report.results import results_data, results_of
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary

HOME = identity().home
CASE = case(engine="", fuser="ort", optimization="fp16")
GELU = "com.microsoft::Gelu"
LEFT = Unfused(GELU, "unet.b.1.ff.net.0", "left", GELU, "node_erf", "Erf")
DETAILS = ("Gelu at b.1.ff.net.0: left (Erf node_erf)", "each of them: --sdperf-explain=FILE")
GAP = Verdict(Outcome.GAP, "below-target", "The unet graph lacks Gelu 1 of 2.", "fusions", 1, 2, details=DETAILS)
EXPLANATION = Explanation(
    {GELU: ("unet.b.0.ff.net.0", "unet.b.1.ff.net.0")}, (LEFT,), ("a limit",), (f"{HOME}/x: failed",)
)
REPORTS = [
    CaseReport("t::a", CASE, verdicts=(GAP,), checks=fused({GELU: 1}, {GELU: 2}, explanation=EXPLANATION)),
    CaseReport("t::b", CASE),
]


def test_the_file_says_per_build_what_is_where_and_what_is_not_and_nothing_private(tmp_path):
    path = tmp_path / "new" / "why.json"
    told = write_explanations(path, REPORTS, command=f"pytest {HOME}/suites", date="2026-11-27T10:00Z")
    assert told == f"{path} explains 1 build: 1 operator not fused where expected."
    data = json.loads(path.read_text(encoding="utf-8"))
    (only,) = data.pop("cases")
    assert data == {"schema": 1, "date": "2026-11-27T10:00Z", "command": "pytest ~/suites"}
    assert only.pop("case")["optimization"] == "fp16"
    assert only == {
        "test": "t::a",
        "verdicts": [{"outcome": "GAP", "code": "below-target", "sentence": "The unet graph lacks Gelu 1 of 2."}],
        "counts": {GELU: 1},
        "expected": {GELU: ["unet.b.0.ff.net.0", "unet.b.1.ff.net.0"]},
        "fused": {GELU: ["unet.b.0.ff.net.0"]},
        "unfused": [
            {
                "op": GELU, "path": "unet.b.1.ff.net.0", "rule": GELU, "node": "node_erf", "op_type": "Erf",
                "reason": "left",
            }
        ],
        "left": {},
        "located": True,
        "limits": ["a limit"],
        "notes": ["~/x: failed"],
    }  # fmt: skip
    check(only, identity())


def test_the_file_of_all_results_does_not_repeat_it():
    data = results_data(results_of(tuple(REPORTS), RunInfo("", ""), RunSummary(), Policy(), Settings(), date=""))
    assert data["reports"][0]["checks"]["fusions"]["explanation"] is None
    assert data["reports"][0]["verdicts"][0]["details"] == list(DETAILS)


def test_a_run_without_builds_explains_none():
    assert explanations_data(REPORTS[1:], command="pytest", date="")["cases"] == []


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "taken").write_text("")
    path = tmp_path / "taken" / "why.json"
    with pytest.raises(OptionError) as caught:
        write_explanations(path, REPORTS, command="", date="")
    assert str(caught.value) == (
        f"cannot write the explanation to {path}: File exists. Name a file in a writable folder with "
        f"--sdperf-explain=FILE."
    )


def test_the_summary_shows_the_first_places_below_their_sentence():
    assert [line.text for line in finding_lines(REPORTS, width=80, every=True)] == [
        "GAP t::a",
        "  The unet graph lacks Gelu 1 of 2. [below-target]",
        "    Gelu at b.1.ff.net.0: left (Erf node_erf)",
        "    each of them: --sdperf-explain=FILE",
    ]
