"""The promise of the whole suite: what became slower fails, and what did not passes. Nothing here is simulated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from user_project import RECORD, joined, report_of

HERE = Path(__file__).parent
NODE = "test_mine.py::test_speed[dense-heavy-unet-on-ort-cpu-at-fp32-128x128]"
# A neighbour on a shared machine easily takes a tenth of the speed; half of the threads take half of it.
TESTS = """
    import pytest

    @pytest.mark.sdperf(
        components=["unet"], optimizations=["fp32"], tolerances={"latency": 0.3}, reason="a shared machine"
    )
    def test_speed(runner, bench):
        bench(runner)
"""
# Neighbours wait while this is measured, where the user may ask for that. A worker is a session of its own, so it needs
# both: Linux shares processors between sessions first, and between the programs of a session then.
PRIORITY = """

import contextlib
import os

with contextlib.suppress(OSError, AttributeError):
    os.setpriority(os.PRIO_PROCESS, 0, -15)
    Path("/proc/self/autogroup").write_text("-15")
"""
ATTEMPTS = 2
BUSY = "Other programs keep the processors busy, and two threads are then no faster than one."


class Scenario(NamedTuple):
    """Recorded with two threads, measured again with two threads, then with one."""

    recorded: pytest.RunResult
    twin: pytest.RunResult
    twin_outcomes: set[str]
    slow: pytest.RunResult


def play(user, monkeypatch) -> Scenario:
    """Play the scenario, and play it again where a neighbour took a processor away in the middle of it.

    Then the machine did differ between the runs, the judge rightly said so, and it is no fault of the plugin. What is
    broken in the plugin gives a wrong verdict every time; INCONCLUSIVE is what a machine deserves that is never quiet.
    """
    undecided = []
    for _ in range(ATTEMPTS):
        if (user.path / "baselines").exists():
            user.baseline_file().unlink()
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        recorded = user.run(*RECORD)
        twin = user.run()
        outcomes = user.all_outcomes()
        undecided += [one["sentence"] for one in user.verdicts() if one["outcome"] == "INCONCLUSIVE"]
        if outcomes != {"HELD"}:
            continue
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        scenario = Scenario(recorded, twin, outcomes, user.run())
        if user.outcomes() == ["REGRESSED"]:
            break
        undecided += [one["sentence"] for one in user.verdicts() if one["outcome"] == "INCONCLUSIVE"]
    else:
        if undecided or psutil.cpu_percent(interval=5) > 25:
            pytest.skip(" ".join([BUSY, *undecided[-1:]]))
        raise AssertionError(f"never HELD and then REGRESSED; the last verdicts: {user.verdicts()}")
    return scenario


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two threads need two processors")
def test_half_the_threads_fail_and_an_unchanged_twin_passes(user, monkeypatch):
    user.project(
        conftest=(HERE / "dense_model.py").read_text() + PRIORITY,
        tests=TESTS,
        options={"model": "dense-heavy", "resolution": 128, "processes": 3, "max-processes": 8},
    )
    (user.path / "dense_model.py").unlink()  # the model is in the conftest alone
    recorded, twin, twin_outcomes, slow = play(user, monkeypatch)

    recorded.assert_outcomes(passed=1)
    assert recorded.ret == 0
    twin.assert_outcomes(passed=1)
    assert (twin.ret, twin_outcomes) == (0, {"HELD"})
    assert "verdicts of 1 case: 1 HELD" in report_of(twin)

    slow.assert_outcomes(failed=1)
    assert slow.ret == 1
    assert user.junit() == {"tests": 1, "failures": 1, "errors": 0, "skipped": 0}
    assert "Traceback" not in slow.stdout.str() + slow.stderr.str()
    (verdict,) = user.verdicts()
    assert (verdict["outcome"], verdict["code"]) == ("REGRESSED", "latency-above-interval")
    obtained, expected = verdict["obtained"], verdict["expected"]
    assert verdict["sentence"].startswith(
        f"UNet latency {ms(obtained)} is {100 * (obtained / expected - 1):.0f} % above its baseline of {ms(expected)} "
        f"(held up to "
    )
    _, blamed, besides = verdict["sentence"].partition("; since then: threads 2 -> 1")
    assert blamed
    # What a neighbour did to the processor meanwhile is said too, behind what changed of the build.
    assert besides == "." or besides.startswith(("; the processor itself needs ", "; its threads waited "))
    lines = report_of(slow)
    assert f"REGRESSED {NODE}" in lines
    assert f"{verdict['sentence']} [latency-above-interval]" in joined(lines)
    assert "verdicts of 1 case: 1 REGRESSED" in lines
    assert lines[-2] == "next, measure what regressed again, alone:"
    assert lines[-1].startswith("pytest ")
    assert lines[-1].endswith(" --lf")
    (session,) = user.stored_case()["sessions"]
    assert session["subject"]["threads"] == "2"


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:#.3g}".removesuffix(".") + " ms"
