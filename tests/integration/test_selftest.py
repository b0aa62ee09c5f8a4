"""A self-test with real processes."""

from __future__ import annotations

import json

from user_project import ACME


def kept(user):
    (path,) = (user.path / "state" / "selftest").iterdir()
    (tests,) = json.loads(path.read_text())["cases"].values()
    return tests


def test_processes_are_really_made_slower(acme):
    acme.project(conftest=ACME, options={"engine": "acme", "processes": 3, "max-processes": 3})
    result = acme.run("--sdperf-selftest", "--sdperf-time-budget=62s")
    assert result.ret in {0, 1, 10}, result.errlines  # whether it passes, and is enough, is a matter of the machine
    (run,) = kept(acme)["runs"]
    plain = run["medians_s"]["0"]
    assert set(run["medians_s"]) == {"0", "0.5", "1"}
    assert min(run["obtained"]["0.5"]) >= 0.5
    assert min(run["obtained"]["1"]) >= 1
    assert len(run["medians_s"]["1"]) == len(run["obtained"]["1"]) == len(plain) >= 1
    # How much longer a wait becomes that something else interrupts is a matter of the machine, too.
    assert any(line.startswith("injected   +50 % was ") for line in result.outlines)
    assert not (acme.path / "baselines").exists()
