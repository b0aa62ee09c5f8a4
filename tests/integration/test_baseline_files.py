"""Accepting results writes one sorted file whose diffs are small; what cannot be trusted is named and left alone."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest
from user_project import ACME, RECORD, report_of

pytestmark = pytest.mark.slow

HINT = (
    "Nothing was written to it. Restore it from version control (git checkout -- {name}), or move it away and record "
    "it again with --sdperf-update-baselines."
)


@pytest.fixture
def recorded(user):
    """A project whose one case is recorded; it runs out of memory every time, so that no noise decides."""
    user.project(conftest=ACME, options={"engine": "acme-device-full"})
    assert user.run("--sdperf-update-baselines").ret == 0
    return user


def unsorted_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert names == sorted(names)
    return dict(pairs)


def test_the_file_is_sorted_and_a_second_session_only_adds_lines(acme):
    assert acme.run(*RECORD, "--sdperf-batch-size=1,2").ret == 0
    before = acme.baseline_file().read_text()
    json.loads(before, object_pairs_hook=unsorted_names)
    assert before.endswith("}\n")
    acme.run(*RECORD)
    after = acme.baseline_file().read_text()
    json.loads(after, object_pairs_hook=unsorted_names)
    diff = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    gone = [line for line in diff if line.startswith("- ")]
    added = [line for line in diff if line.startswith("+ ")]
    # The bracket behind the first session gets a comma.
    assert {line.strip() for line in gone} <= {"-     }"}
    assert 0 < len(added) < len(before.splitlines()) / 3
    batch_1, batch_2 = (acme.stored_cases()[key] for key in sorted(acme.stored_cases()))
    assert [len(case["sessions"]) for case in (batch_1, batch_2)] == [2, 1]
    assert batch_1["anchor"] == batch_1["sessions"][0]


def test_a_run_without_the_option_leaves_the_file_alone(recorded):
    before = recorded.baseline_file().read_bytes()
    assert recorded.run("--sdperf-engine=acme-device-full,acme").ret == 0
    assert recorded.baseline_file().read_bytes() == before


def test_another_machine_is_invalid_and_cannot_be_written_over(recorded):
    path = recorded.baseline_file()
    data = json.loads(path.read_text())
    memory = data["machine"]["memory_bytes"]
    data["machine"]["memory_bytes"] = 2 * memory
    path.write_text(json.dumps(data))
    before = path.read_bytes()
    result = recorded.run()
    result.assert_outcomes(failed=1)
    assert result.ret == 10
    (verdict,) = recorded.verdicts("measurement")
    assert (verdict["outcome"], verdict["code"]) == ("INVALID", "machine-changed")
    assert verdict["sentence"] == (
        f"The baseline was recorded on another machine: memory_bytes was {2 * memory} and is {memory}."
    )
    assert "verdicts of 1 case: 1 INVALID" in report_of(result)
    assert recorded.run("--sdperf-update-baselines").ret == 10
    assert path.read_bytes() == before


def text_of(result: pytest.RunResult) -> str:
    return " ".join(f"{result.stdout.str()} {result.stderr.str()}".split())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"schema": 1,\n "machine": }', "is not valid JSON: line 2, column 13: Expecting value."),
        ('{"schema": 1, "machine": {}}', "is not a baseline: `cases` must be an object - at `$`."),
    ],
)
def test_a_corrupt_file_is_named_and_untouched(recorded, content, why):
    path = recorded.baseline_file()
    path.write_text(content)
    for arguments in ([], ["--sdperf-update-baselines"]):
        result = recorded.run(*arguments)
        assert f"baseline file {path} {why} {HINT.format(name=path.name)}" in text_of(result)
        assert "Traceback" not in text_of(result)
        assert "INTERNALERROR" not in text_of(result)
        assert result.ret == 4
        assert path.read_text() == content


def test_a_file_of_another_schema_is_named_and_untouched(recorded):
    path = recorded.baseline_file()
    content = path.read_text().replace('"schema": 2', '"schema": 3')
    path.write_text(content)
    result = recorded.run()
    assert result.ret == 4
    assert (
        f"baseline file {path} has schema 3; this version of pytest-sdperf reads schema 1 and 2. Install the version "
        f"that wrote it, or move the file away and record it again with --sdperf-update-baselines."
    ) in text_of(result)
    assert path.read_text() == content
