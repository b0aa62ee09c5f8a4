"""What CI sees: the exit status, the JUnit file and the sentences of a run that is to be strict."""

from __future__ import annotations

import pytest
from user_project import ACME, RECORD, report_of

pytestmark = pytest.mark.slow


def test_a_missing_baseline_fails_where_that_was_asked_for(acme):
    result = acme.run("--sdperf-fail-on=new")
    result.assert_outcomes(failed=1)
    assert result.ret == 12
    assert acme.junit() == {"tests": 1, "failures": 1, "errors": 0, "skipped": 0}
    (verdict,) = acme.verdicts()
    assert verdict["sentence"].startswith("UNet latency ")
    assert verdict["sentence"].endswith(" has no baseline, and --sdperf-fail-on=new asks for one.")
    assert f"NEW: {verdict['sentence']} [no-baseline]" in result.stdout.str()
    assert "verdicts of 1 case: 1 NEW" in report_of(result)


def test_a_case_that_was_recorded_is_no_missing_baseline(acme):
    full, strict = "--sdperf-engine=acme-device-full", "--sdperf-fail-on=new"
    assert acme.run(full, "--sdperf-update-baselines").ret == 0
    result = acme.run(full, strict)
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result = acme.run(f"{full},acme", strict)
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 12


def test_an_inconclusive_case_is_skipped_or_fails_as_asked(acme):
    assert acme.run(*RECORD).ret == 0
    reason = "but no process was repeated, neither now nor in the baseline, so chance cannot be told from change."
    result = acme.run("-rs")
    result.assert_outcomes(skipped=1)
    assert result.ret == 0
    assert acme.junit() == {"tests": 1, "failures": 0, "errors": 0, "skipped": 1}
    (verdict,) = acme.verdicts()
    assert (verdict["outcome"], verdict["code"]) == ("INCONCLUSIVE", "latency-no-replicates")
    assert verdict["sentence"].endswith(reason)
    assert f"INCONCLUSIVE: {verdict['sentence']} [latency-no-replicates]" in result.stdout.str()

    result = acme.run("--sdperf-fail-on=inconclusive")
    result.assert_outcomes(failed=1)
    assert result.ret == 11
    assert "verdicts of 1 case: 1 INCONCLUSIVE" in report_of(result)


def test_an_ordinary_failure_is_exit_status_one_and_keeps_its_own_report(acme):
    acme.project(
        conftest=ACME,
        options={"engine": "acme"},
        tests="""
            import pytest

            @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
            def test_speed(runner, bench):
                assert bench(runner).latency_s > 100, "far too fast"
        """,
    )
    result = acme.run("--sdperf-update-baselines")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    assert "far too fast" in result.stdout.str()
    assert not (acme.path / "baselines").exists()
