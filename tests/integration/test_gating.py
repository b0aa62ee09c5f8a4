"""Saved results say on a machine without a GPU what the run itself said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from user_project import RECORD, report_of

pytestmark = pytest.mark.slow
SCHEMA = Path(__file__).parents[2] / "docs" / "results.schema.json"


def gate(user, *arguments):
    """Type `sdperf gate`; return what it printed and its exit status."""
    command = [sys.executable, "-c", "import sys; from pytest_sdperf.cli import main; sys.exit(main())"]
    told = subprocess.run(
        [*command, "gate", "results.json", "--gpu=cpu", *arguments],
        cwd=user.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stderr == ""
    return told.stdout.splitlines(), told.returncode


def said(lines):
    """Return what a report says about cases: not where its baselines are, and not what to type for more, or next."""
    kept = [line.rstrip() for line in lines if line.strip()]
    start = next(number for number, line in enumerate(kept) if line.startswith("dense"))
    end = next(number for number, line in enumerate(kept) if line.startswith(("next", "pytest -v", "sdperf gate -v")))
    return kept[start:end]


def test_the_gate_says_what_the_run_said_in_a_file_that_obeys_the_published_schema(acme, monkeypatch):
    engines = "--sdperf-engine=acme,acme-device-full,acme-leaves"
    assert acme.run("--sdperf-engine=acme,acme-device-full", *RECORD).ret == 0
    monkeypatch.setenv("ACME", "oom")
    run = acme.run(engines)
    assert run.ret == 1
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(acme.results())
    lines, status = gate(acme)
    assert status == 1
    assert said(lines) == said(report_of(run))
    assert "verdicts of 3 cases: 1 REGRESSED, 1 INVALID, 1 HELD" in lines


def test_without_the_baseline_of_the_run_everything_is_new(acme):
    assert acme.run("--sdperf-engine=acme-device-full", "--sdperf-update-baselines").ret == 0
    assert gate(acme, "--fail-on=new")[1] == 0
    (acme.path / "elsewhere").mkdir()
    lines, status = gate(acme, "--fail-on=new", "--baselines=elsewhere")
    assert status == 12
    assert "verdicts of 1 case: 1 NEW" in lines
