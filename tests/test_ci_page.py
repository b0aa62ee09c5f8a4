"""The workflow of the manual: it is valid YAML, and every command in it exists with every option that it is given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from pytest_sdperf import cli
from pytest_sdperf.cases.options.flags import OPTIONS

PAGE = Path(__file__).parent.parent / "docs" / "ci.md"
README = PAGE.parent.parent / "README.md"


@pytest.fixture(scope="module")
def jobs():
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return yaml.safe_load(text)["jobs"]


def commands_of(job):
    """Return the commands of a job, each as its words; a variable of the shell is a word like any other."""
    scripts = (step["run"].replace("\\\n", " ") for step in job["steps"] if "run" in step)
    return [shlex.split(line) for script in scripts for line in script.splitlines() if line.strip()]


def commands(jobs, name):
    return [words[1:] for job in jobs.values() for words in commands_of(job) if Path(words[0]).name == name]


def test_one_job_measures_one_judges_and_one_accepts(jobs):
    told = {name: [Path(words[0]).name for words in commands_of(job)] for name, job in jobs.items()}
    assert told["measure"] == ["python3", "pip", "pytest"]
    assert told["gate"] == ["pip", "sdperf", "cat"]
    assert told["accept"][:3] == ["pip", "gh", "sdperf"]
    assert jobs["gate"]["needs"] == "measure"


def test_it_measures_with_the_command_of_the_readme_and_keeps_its_results(jobs):
    (words,) = commands(jobs, "pytest")
    assert f"pytest {' '.join(words[:3])} " in README.read_text(encoding="utf-8")
    known = {option.long for option in OPTIONS} | {f"--{option.name}" for option in OPTIONS if option.short}
    assert {word.partition("=")[0] for word in words[1:]} <= known
    (kept,) = (step["with"] for step in jobs["measure"]["steps"] if "upload-artifact" in step.get("uses", ""))
    assert f"--sdperf-json={kept['path']}" in words
    assert kept["if-no-files-found"] == "error"


def test_every_command_of_sdperf_is_one_that_it_understands(jobs):
    found = commands(jobs, "sdperf")
    parsed = [cli.parser().parse_args(words) for words in found]
    assert [(words[0], chosen.baselines) for words, chosen in zip(found, parsed, strict=True)] == [
        ("gate", Path("baselines")),
        ("baselines", Path("baselines")),
    ]
    gate, accept = parsed
    appended = commands_of(jobs["gate"])[-1]
    assert appended == ["cat", str(gate.markdown), ">>", "$GITHUB_STEP_SUMMARY"]
    assert jobs["gate"]["steps"][-1]["if"] == "always()"  # a red gate is the one that somebody reads
    assert gate.fail_on == "new,unused,inconclusive"
    assert (accept.results, accept.reason) == ([Path("artifacts")], "$REASON")


def test_what_is_typed_by_a_person_reaches_the_shell_as_a_variable_only(jobs):
    scripts = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []
