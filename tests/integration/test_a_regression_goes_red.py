"""The promise of the whole suite: what became slower fails, and what did not passes. Nothing here is simulated."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import joined, report_of

HERE = Path(__file__).parent
NODE = "test_mine.py::test_speed[dense-heavy-unet-on-ort-cpu-at-fp32]"
# A third of the time is lost to any neighbour on a shared machine; half of the threads costs half of the speed.
TESTS = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"], min_effect=0.3, reason="a shared machine")
    def test_speed(runner, bench):
        bench(runner)
"""
ATTEMPTS = 3


def record_until_it_holds(user) -> pytest.RunResult:
    """Record with two threads and measure the unchanged twin; return the twin's run.

    A neighbour that takes a processor away during one of the two runs makes them differ, and the judge then rightly
    says so. That is no fault of the plugin, so both runs are repeated, a few times at most.
    """
    for _ in range(ATTEMPTS):
        user.baseline_file().unlink() if (user.path / "baselines").exists() else None
        recorded = user.run("--sdperf-update-baselines")
        recorded.assert_outcomes(passed=1)
        assert recorded.ret == 0
        twin = user.run()
        if user.outcomes() == ["HELD"]:
            return twin
    raise AssertionError(f"the unchanged twin never held; the last time: {user.verdicts()}")


@pytest.mark.slow
def test_half_the_threads_fail_and_an_unchanged_twin_passes(user, monkeypatch):
    user.project(
        conftest=(HERE / "dense_model.py").read_text(),
        tests=TESTS,
        options={"model": "dense-heavy", "resolution": 128, "processes": 3},
    )
    (user.path / "dense_model.py").unlink()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    twin = record_until_it_holds(user)
    twin.assert_outcomes(passed=1)
    assert twin.ret == 0
    assert "verdicts of 1 case: 1 HELD" in report_of(twin)
    recorded = user.baseline_file().read_bytes()

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    slow = user.run()
    slow.assert_outcomes(failed=1)
    assert slow.ret == 1
    assert user.junit() == {"tests": 1, "failures": 1, "errors": 0, "skipped": 0}
    assert "Traceback" not in slow.stdout.str() + slow.stderr.str()
    (verdict,) = user.verdicts()
    assert (verdict["outcome"], verdict["code"]) == ("REGRESSED", "latency-above-interval")
    obtained, expected = (told(verdict[side]) for side in ("obtained", "expected"))
    assert verdict["sentence"].startswith(f"UNet latency {obtained} is ")
    assert f" above its baseline of {expected} (held up to " in verdict["sentence"]
    assert verdict["sentence"].endswith("; since then: threads 2 -> 1.")
    lines = report_of(slow)
    assert f"{verdict['sentence']} [latency-above-interval]" in joined(lines)
    assert f"REGRESSED {NODE}" in lines
    assert lines[-3:-1] == ["verdicts of 1 case: 1 REGRESSED", "next, measure what regressed again, alone:"]
    assert lines[-1].startswith("pytest ")
    assert lines[-1].endswith(" --lf")
    assert user.baseline_file().read_bytes() == recorded


def told(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
