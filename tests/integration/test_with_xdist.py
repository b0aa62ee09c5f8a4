"""With pytest-xdist, tests run in several pytest processes and still give one report and one exit status."""

from __future__ import annotations

import pytest
from user_project import RECORD, report_of

pytestmark = pytest.mark.slow
ENGINES = ("acme", "acme-device-full", "acme-wrong", "ort-cpu")


def test_reports_of_all_workers_are_one_report_and_a_regression_in_one_is_exit_status_one(acme, monkeypatch):
    result = acme.run("-n2", f"--sdperf-engine={','.join(ENGINES)}", *RECORD)
    result.assert_outcomes(passed=4)
    assert result.ret == 0
    assert acme.junit() == {"tests": 4, "failures": 0, "errors": 0, "skipped": 0}
    assert result.outlines.count("verdicts of 4 cases: 4 NEW") == 1
    assert sum(line.strip("= ") == "sdperf" for line in result.outlines) == 1
    assert len(acme.results()["reports"]) == 4
    assert len(acme.stored_cases()) == 4

    monkeypatch.setenv("ACME", "oom")
    result = acme.run("-n2", "--sdperf-engine=acme,acme-leaves")
    result.assert_outcomes(failed=2)
    assert result.ret == 1
    assert "verdicts of 2 cases: 1 REGRESSED, 1 INVALID" in report_of(result)


def test_the_exit_status_follows_every_worker(acme):
    result = acme.run("-n2", "--sdperf-engine=acme,acme-leaves,acme-aborts")
    result.assert_outcomes(passed=1, failed=2)
    assert result.ret == 10
    assert "verdicts of 3 cases: 2 INVALID, 1 NEW" in report_of(result)
