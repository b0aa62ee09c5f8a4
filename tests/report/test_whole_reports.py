"""Whole reports as they are printed, at two widths, with colours and without."""

from __future__ import annotations

import re

import pytest
from whole_reports import FILES, FOLDER, SCENES, printed

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LONGEST, QUIET = 40, 10


@pytest.mark.parametrize("name", FILES)
def test_a_whole_report_is_as_it_was_looked_at(name):
    """`python tests/report/whole_reports.py` writes the files anew."""
    assert printed(*FILES[name]) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_no_file_is_left_over():
    assert {file.stem for file in FOLDER.iterdir()} == set(FILES)


@pytest.mark.parametrize("scene", ["in-order", "first-run"])
def test_a_ladder_of_two_engines_and_batch_sizes_has_forty_lines(scene):
    assert len(printed(scene, 80, 0, False).splitlines()) <= LONGEST


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("scene", SCENES)
def test_a_quiet_report_has_ten_lines(scene, width):
    assert len(printed(scene, width, -1, False).splitlines()) <= QUIET


@pytest.mark.parametrize("scene", SCENES)
def test_colours_change_no_word(scene):
    assert _COLOUR.sub("", printed(scene, 80, 0, True)) == printed(scene, 80, 0, False)


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
@pytest.mark.parametrize("scene", SCENES)
def test_the_first_line_is_the_answer_and_the_last_one_a_command(scene, verbosity):
    lines = printed(scene, 80, verbosity, False).splitlines()
    assert re.fullmatch(r"verdicts of \d+ cases: [\dA-Z ,]+", lines[0])
    assert lines[-2].startswith("next, ")
    assert lines[-1].startswith("pytest ") or lines[-1].startswith("sdperf ")


def test_of_many_findings_each_kind_is_told_before_another_of_the_same():
    text = printed("many-findings", 80, 0, False)
    assert "INVALID suites/test_pipelines.py::test_latency[b8]" in text
    assert "INVALID suites/test_fusions.py::test_vae_decoder[fp32]" in text
    assert "\n  and 5 more tests alike\n" in text
    assert "\nand 32 more findings: pytest -v tells them\n" in text


def test_only_commands_and_names_of_tests_are_longer_than_the_terminal():
    for width in (60, 80):
        for scene in SCENES:
            for line in printed(scene, width, 0, False).splitlines():
                assert len(line) <= width or "::" in line or line.startswith(("pytest ", "sdperf ")), line
