"""Files that a run is to write: one that cannot be written is refused before the first test."""

from __future__ import annotations

import importlib.util
import os

import pytest
from test_plugin import BARE, UNETS

OPTIONS = ("--sdperf-json", "--sdperf-html", "--sdperf-explain")


@pytest.fixture
def refused(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): print('measured')")

    def problem(option: str, path: str) -> str:
        result = sdperf(*UNETS, f"{option}={path}", "-s")
        assert result.ret == 4
        assert "measured" not in result.stdout.str()
        return result.stderr.str().rstrip("\n")

    return problem


def message(option, path, why):
    return f"ERROR: {option}={path} cannot be written: {why}. Name a file in a writable folder with {option}=FILE."


@pytest.mark.parametrize("option", OPTIONS)
def test_a_folder_is_no_file(refused, tmp_path, option):
    assert refused(option, str(tmp_path)) == message(option, tmp_path, "Is a directory")


@pytest.mark.parametrize("option", OPTIONS)
def test_a_folder_that_does_not_exist_is_not_made(refused, pytester, option):
    path = pytester.path / "resluts" / "out.json"
    assert refused(option, "resluts/out.json") == message(option, path, "No such file or directory")
    assert not path.parent.exists()


@pytest.mark.parametrize("option", OPTIONS)
def test_a_file_has_no_files_in_it(refused, pytester, option):
    (pytester.path / "results").touch()
    path = pytester.path / "results" / "out.json"
    assert refused(option, "results/out.json") == message(option, path, "Not a directory")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything is writable for this user")
def test_a_folder_without_permission(refused, tmp_path):
    tmp_path.chmod(0o500)
    path = tmp_path / "out.json"
    assert refused("--sdperf-json", str(path)) == message("--sdperf-json", path, "Permission denied")
    tmp_path.chmod(0o700)


def test_pictures_need_a_folder(refused, tmp_path):
    (tmp_path / "images").touch()
    assert refused("--sdperf-images", str(tmp_path / "images")) == (
        f"ERROR: --sdperf-images={tmp_path / 'images'}: this folder cannot be made: File exists. Name another one with "
        f"--sdperf-images=FOLDER."
    )


def test_pictures_need_pillow(refused, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "PIL" else find(name, *more))
    assert refused("--sdperf-images", str(tmp_path)) == (
        f"ERROR: --sdperf-images={tmp_path} needs pillow, which is not installed; type: pip install "
        f"'flip-evaluator>=1.7' 'pillow>=11' 'scikit-image>=0.24'"
    )


def test_a_file_that_can_be_written_is_left_as_it_is_until_the_end(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile(
        "from pathlib import Path\ndef test_step(bench): assert Path('out.json').read_text() == 'before'"
    )
    (pytester.path / "out.json").write_text("before")
    sdperf(*UNETS, "--sdperf-json=out.json").assert_outcomes(passed=4)
    assert [path.name for path in pytester.path.glob("*out.json*")] == ["out.json"]
