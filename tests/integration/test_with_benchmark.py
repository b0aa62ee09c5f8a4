"""pytest-benchmark shows the device times that the suite measured, and leaves out what measures where that is asked."""

from __future__ import annotations

import json
import statistics

import pytest

pytestmark = pytest.mark.slow


def medians(report) -> list[float]:
    return [statistics.median(sample["iterations_s"]) for sample in report["measurement"]["samples"]]


def test_its_file_holds_the_medians_of_the_processes(user):
    user.project()
    result = user.run("--benchmark-json=bench.json", "--sdperf-processes=3")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    shown = json.loads((user.path / "bench.json").read_text())["benchmarks"]
    reports = user.results()["reports"]
    assert [entry["fullname"] for entry in shown] == [report["nodeid"] for report in reports]
    for entry, report in zip(shown, reports, strict=True):
        assert len(entry["stats"]["data"]) == 3
        assert entry["stats"]["data"] == pytest.approx(medians(report), rel=1e-6)


def test_its_comparison_stands_beside_ours(user):
    user.project()
    assert user.run("--benchmark-autosave").ret == 0
    result = user.run("--benchmark-compare")
    assert result.ret == 0
    rows = {tuple(line.split()[:2]) for line in result.outlines if line.startswith("test_speed")}
    assert rows == {("test_speed[dense-unet-on-ort-cpu-at-fp32]", f"({which})") for which in ("0001_unversi", "NOW")}


@pytest.mark.parametrize("option", ["--benchmark-disable", "--benchmark-only"])
def test_the_suite_measures_and_judges_whatever_it_is_told(user, option):
    user.project()
    result = user.run(option)
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    assert user.outcomes() == ["NEW"]
    assert "verdicts of 1 case: 1 NEW" in result.outlines
