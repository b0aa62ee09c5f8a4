"""The rules of other tools beside ours, on samples whose answer is known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from sample_values import CASE, session, stored

from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.stored import Baseline


@pytest.fixture
def side_by_side(monkeypatch, capsys):
    path = Path(__file__).parent.parent / "benchmarks" / "side_by_side.py"
    spec = importlib.util.spec_from_file_location("side_by_side", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(*files):
        monkeypatch.setattr("sys.argv", ["side_by_side.py", *map(str, files)])
        module.main()
        return capsys.readouterr().out

    return run


def written(folder, *sessions, name="t4.json"):
    file = folder / name
    file.write_text(to_text(Baseline(machine={}, cases={CASE.key: stored(*sessions)})), encoding="utf-8")
    return file


def test_each_rule_judges_each_session_by_those_before_it(side_by_side, tmp_path):
    # The second session is 1 % slower in every process, which calls take for certain and processes do not.
    file = written(tmp_path, session(10, 10.02, 9.98), session(10.1, 10.12, 10.08))
    lines = side_by_side(file).splitlines()
    assert lines[0] == "1 comparisons: share of alarms, with 95 % intervals"
    none, one = "0.000 (0.000 to 0.975)", "1.000 (0.025 to 1.000)"
    assert lines[2:] == [
        "| rule | +0% | +2% | +3% | +5% | +10% | +30% |",
        "|---|---|---|---|---|---|---|",
        f"| pytest-benchmark mean:5% | {none} | {none} | {none} | {one} | {one} | {one} |",
        f"| Mann-Whitney on calls | {one} | {one} | {one} | {one} | {one} | {one} |",
        f"| +25 % | {none} | {none} | {none} | {none} | {none} | {one} |",
        f"| ours | {none} | {one} | {one} | {one} | {one} | {one} |",
    ]


def test_a_cpu_is_judged_as_one(side_by_side, tmp_path):
    file = written(tmp_path, session(10, 10.02, 9.98), session(10.1, 10.12, 10.08), name="cpu-a-2c.json")
    none, one = "0.000 (0.000 to 0.975)", "1.000 (0.025 to 1.000)"
    assert side_by_side(file).splitlines()[-1] == f"| ours | {' | '.join([none] * 5)} | {one} |"


def test_a_file_without_a_second_session_is_refused(side_by_side, tmp_path, capsys):
    with pytest.raises(SystemExit):
        side_by_side(written(tmp_path, session()))
    assert capsys.readouterr().err.splitlines()[-1] == (
        "side_by_side.py: error: no case of these files has two sessions; record some with --sdperf-update-baselines"
    )
