from __future__ import annotations

import dataclasses
import sys

import pytest
from sample_values import CASE, measurement, stored

from pytest_sdperf import cli
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.report.results import SavedResults, write_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary

MACHINE = {"cores": 2}

ALTERED = "PLANTED weights-quantized: Convolutions come from a file of 8-bit weights. It went into the weights."


@pytest.fixture
def gate(tmp_path, monkeypatch, capsys):
    """Type `sdperf gate` in a folder with a baseline; return the exit status and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "acme_plugin", raising=False)
    (tmp_path / "baselines").mkdir()
    baseline = Baseline(machine=MACHINE, cases={CASE.key: stored()})
    (tmp_path / "baselines" / "h200.json").write_text(to_text(baseline), encoding="utf-8")

    def run(*arguments, times_ms=(9.9, 10.0, 10.1), altered="", **summary):
        measured = measurement(*times_ms)
        report = CaseReport("a::b", CASE, measured, verdicts=judge(measured, None, policy=Policy()), policy=Policy())
        whole = dataclasses.replace(RunSummary(selected=1, measured=True, collected=(CASE,)), **summary)
        saved = SavedResults(
            date="2026-11-28T10:00Z",
            run=RunInfo("A card", "h200", "h200", MACHINE, altered=altered),
            summary=whole,
            policy=Policy(),
            settings={},
            reports=(report,),
        )
        write_results(tmp_path / "results.json", saved)
        status = cli.main(["gate", "results.json", *arguments])
        told = capsys.readouterr()
        return status, told.out.splitlines(), told.err

    return run


def test_results_that_held_pass(gate):
    status, lines, _ = gate("--gpu=h200", "--baselines=baselines")
    assert status == 0
    assert "verdicts of 1 case: 1 HELD" in lines


def test_results_of_an_altered_run_are_no_news(gate):
    status, lines, _ = gate("--gpu=h200", "--baselines=baselines", altered=ALTERED)
    assert status == 10
    assert "INVALID the run was altered on purpose: its results say nothing about what is tested" in lines
    assert ALTERED in " ".join(line.strip() for line in lines)


def test_results_that_regressed_are_exit_status_one_with_the_sentence_of_a_run(gate):
    status, lines, _ = gate("--gpu=h200", "--baselines=baselines", times_ms=(14.9, 15.0, 15.1))
    assert status == 1
    assert "REGRESSED a::b" in lines
    assert (
        "  UNet latency 15.0 ms is 50 % above its baseline of 10.0 ms (held up to"
        in lines[lines.index("REGRESSED a::b") + 1]
    )


@pytest.mark.parametrize(("asked", "status"), [("none", 0), ("new", 12)])
def test_a_folder_without_a_baseline_is_new(gate, tmp_path, asked, status):
    (tmp_path / "elsewhere").mkdir()
    assert gate("--gpu=h200", "--baselines=elsewhere", f"--fail-on={asked}")[0] == status


def test_a_folder_that_is_not_there_is_a_wrong_command_line(gate):
    status, lines, told = gate("--gpu=h200", "--baselines=baselinez")
    assert (status, lines) == (4, [])
    assert told == (
        "ERROR: --baselines=baselinez: there is no such folder. Did you mean baselines? Name the folder of the "
        "baseline files, or leave --baselines out for that of a run that is started here.\n"
    )


def test_noise_fails_where_that_is_asked(gate):
    noisy = (8.0, 10.0, 12.0)
    assert gate("--gpu=h200", "--baselines=baselines", times_ms=noisy)[0] == 0
    assert gate("--gpu=h200", "--baselines=baselines", "--fail-on=inconclusive", times_ms=noisy)[0] == 11


def test_a_stored_case_that_was_not_collected_fails_where_that_is_asked(gate):
    other = (dataclasses.replace(CASE, component="vae_decoder"),)
    asked = ("--gpu=h200", "--baselines=baselines", "--fail-on=unused")
    assert gate(*asked)[0] == 0
    assert gate(*asked, collected=other)[0] == 12


def test_another_device_is_a_wrong_command_line(gate):
    status, lines, error = gate("--gpu=a100", "--baselines=baselines")
    assert (status, lines) == (4, [])
    assert error == (
        "ERROR: results results.json were measured on h200, and --gpu=a100 names another device. Give --gpu=h200, or "
        "results of a100.\n"
    )


def test_no_device_is_a_wrong_command_line(gate):
    status, lines, error = gate("--gpu=", "--baselines=baselines")
    assert (status, lines) == (4, [])
    assert error == (
        "ERROR: results results.json were measured on h200, and --gpu= names no device. Give --gpu=h200.\n"
    )


def test_a_verdict_that_there_is_not_is_answered_with_those_that_there_are(gate):
    status, _, error = gate("--gpu=h200", "--fail-on=inconclusiv")
    assert status == 4
    assert error.startswith("ERROR: unknown verdict of fail-on 'inconclusiv'. Did you mean 'inconclusive'? Known: ")


def test_the_baselines_are_those_of_a_run_that_is_started_here(gate, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.sdperf]\nbaselines = 'elsewhere'\n", encoding="utf-8")
    assert gate("--gpu=h200", "--fail-on=new")[0] == 12


def test_a_baseline_that_a_plug_in_registered_judges_as_in_a_run(gate, tmp_path):
    (tmp_path / "acme_plugin.py").write_text(
        "from pathlib import Path\n"
        "def pytest_sdperf_register(catalog):\n"
        "    catalog.add_baselines(Path(__file__).parent / 'acme')\n",
        encoding="utf-8",
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p acme_plugin\n", encoding="utf-8")
    (tmp_path / "baselines").rename(tmp_path / "acme")
    (tmp_path / "baselines").mkdir()
    status, lines, _ = gate("--gpu=h200", "--baselines=baselines", times_ms=(14.9, 15.0, 15.1))
    assert status == 1
    told = " ".join(" ".join(lines).split())
    assert f"baselines baselines/h200.json: none yet; {tmp_path}/acme/h200.json: 1 case, newest of 2026-11-20" in told


def test_a_configuration_that_cannot_be_read_may_register_baselines(gate, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nminversion = 99\n", encoding="utf-8")
    status, lines, error = gate("--gpu=h200", "--baselines=baselines")
    assert (status, lines) == (4, [])
    assert error.splitlines()[-1] == (
        "ERROR: pytest cannot read the configuration of this folder (exit status 4). It may register folders of "
        "baselines. Correct it, or type this command in a folder that has none, and name the folders with its own "
        "options; see --help."
    )


def test_the_device_has_to_be_named(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["gate", "results.json"])
    assert caught.value.code == 2
    assert "the following arguments are required: --gpu" in capsys.readouterr().err


def test_the_report_is_written_as_markdown_whatever_its_status(gate, tmp_path):
    asked = ("--gpu=h200", "--baselines=baselines", "--markdown=summary.md")
    status, told, _ = gate(*asked, times_ms=(14.9, 15.0, 15.1))
    lines = (tmp_path / "summary.md").read_text(encoding="utf-8").splitlines()
    assert (status, lines[0]) == (1, "## verdicts of 1 case: 1 REGRESSED")
    assert lines[4:7] == [
        "| results | results.json of 2026-11-28T10:00Z |",
        "| device | A card (h200), 2 cores |",
        "| baselines | baselines/h200.json: 1 case, newest of 2026-11-20 |",
    ]
    assert told[0] == "results    results.json of 2026-11-28T10:00Z"
    assert sum(line.startswith("- **REGRESSED** a::b: UNet latency 15.0 ms is 50 % above") for line in lines) == 1
    gate(*asked, altered=ALTERED)
    assert "**INVALID** the run was altered on purpose" in (tmp_path / "summary.md").read_text()


def test_a_markdown_file_that_cannot_be_written_is_refused_before_anything_is_judged(gate):
    status, lines, told = gate("--gpu=h200", "--baselines=baselines", "--markdown=nowhere/summary.md")
    assert (status, lines) == (4, [])
    assert told == (
        "ERROR: --markdown=nowhere/summary.md cannot be written: No such file or directory. Name a file in a writable "
        "folder with --markdown=FILE.\n"
    )
