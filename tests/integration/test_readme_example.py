"""The README's own test, in an empty folder, typed as the README says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from user_project import report_of

README = Path(__file__).parents[2] / "README.md"
CASES = [
    f"test_mine.py::test_unet_is_right_and_fast[sd15-thin-unet-on-ort-cpu-at-{rung}{batch}]"
    for rung in ("fp32", "fp16")
    for batch in ("", "-batch-2")
]


def blocks(language: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_it_runs_once_per_engine_rung_and_batch_size_and_passes(user):
    (example,) = blocks("python")
    command, file, *options = shlex.split(blocks("bash")[2])
    assert (command, file) == ("pytest", "test_mine.py")
    (user.path / file).write_text(example)
    collected = user.run(file, *options, "--collect-only", "-q")
    assert [line for line in collected.outlines if "::" in line] == CASES

    # The cases of one batch size, the one that is not the default: each has an export of its own, which takes a minute.
    folders = (f"--sdperf-cache-dir={user.cache}", "--sdperf-state-dir=state", "--sdperf-json=results.json")
    result = user.run(file, *options, *folders, "--sdperf-batch-size=2")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    reports = user.results()["reports"]
    assert [report["nodeid"] for report in reports] == CASES[1::2]
    assert all(report["agreements"][0]["error"] <= report["agreements"][0]["limit"] for report in reports)
    assert [len(report["measurement"]["samples"]) for report in reports] == [3, 3]
    assert user.outcomes() == ["NEW", "NEW"]
    lines = report_of(result)
    assert "verdicts of 2 cases: 2 NEW" in lines
    # Nobody knows how busy this machine was meanwhile.
    assert lines[-2] in (
        "next, accept 2 results that are new or improved:",
        "next, accept the result:",
        "next, measure again where nothing else runs, before you accept anything:",
    )
    assert lines[-1] == "sdperf baselines accept --state-dir=state" or lines[-2].startswith("next, measure again")
