from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import forked_pytest
import pytest

from pytest_sdperf import cli
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.cli import project


def _make(folder):
    (folder / "model.onnx").write_bytes(b"x" * 10**6)
    return {}


@pytest.fixture
def folder(tmp_path):
    """The folder of a cache that holds two artifacts of 1 MB."""
    for key in ("first", "second"):
        Cache(tmp_path / "cache", size_bytes=10**9).get_or_make(key, _make)
    return tmp_path / "cache"


def test_run_is_pytest_on_the_installed_suites_with_the_short_names(monkeypatch):
    seen: list[list[str]] = []

    def main(arguments):
        seen.append(arguments)
        return 0

    monkeypatch.setattr(pytest, "main", main)
    assert cli.main(["run", "--gpu=a100", "-k", "unet", "--help"]) == 0
    assert seen == [
        [
            "-p",
            "sdperf",
            "-p",
            "pytest_sdperf.short_names",
            "--pyargs",
            "pytest_sdperf.suites",
            "--gpu=a100",
            "-k",
            "unet",
            "--help",
        ]
    ]


def test_the_suites_of_a_source_tree_have_the_name_that_they_have_in_the_wheel(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    ours = ["-p", "pytest_sdperf.plugin", "--sdperf-component=unet", "--collect-only", "-q"]
    every = len(list((Path(__file__).parents[2] / "suites").glob("test_*.py")))
    for name, files in {"pytest_sdperf.suites": every, "pytest_sdperf.suites.test_fusions": 1}.items():
        result = forked_pytest.run(pytester, *ours, "--pyargs", name)
        assert result.ret == 0, result.stderr.str()
        assert len({line.partition("::")[0] for line in result.outlines if "::" in line}) == files
    assert forked_pytest.run(pytester, *ours, "--pyargs", "pytest_sdperf.suites.test_nothing").ret == 4


def test_cache_info_says_how_much_there_is(folder, capsys):
    assert cli.main(["cache", "info", f"--cache-dir={folder}"]) == 0
    assert capsys.readouterr().out == f"{folder}: 2 built models, 0.00 GB\n"


def test_cache_prune_removes_the_least_recently_used(folder, capsys):
    assert cli.main(["cache", "prune", f"--cache-dir={folder}", "--to=1.5MB"]) == 0
    assert capsys.readouterr().out == "removed first\n1 built models removed\n"
    assert cli.main(["cache", "prune", f"--cache-dir={folder}"]) == 0
    assert capsys.readouterr().out == "removed second\n1 built models removed\n"


def test_the_help_says_before_that_all_of_the_cache_goes(capsys):
    for command in (["cache", "--help"], ["cache", "prune", "--help"]):
        with pytest.raises(SystemExit):
            cli.main(command)
    shown = " ".join(capsys.readouterr().out.split())
    assert "prune remove built models, least recently used first, until --to is left; without it all" in shown
    assert "--to SIZE what may stay, such as 20GB; default: 0, all are removed" in shown


def test_cache_prune_says_what_it_leaves_to_running_tests(folder, capsys):
    running = Cache(folder, size_bytes=10**9)
    running.get_or_make("second", _make)
    assert cli.main(["cache", "prune", f"--cache-dir={folder}"]) == 0
    assert capsys.readouterr().out == (
        "removed first\n1 built models removed\n1 built models stay: running tests use or build them\n"
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", "[tool.sdperf]\ncache-dir = 'cache'\n"),
        ("pytest.ini", "[pytest]\nsdperf_cache_dir = cache\n"),
        ("pytest.ini", "[pytest]\naddopts = --sdperf-cache-dir=../cache\n"),
    ],
)
def test_the_cache_is_the_one_of_a_run_that_is_started_here(folder, capsys, monkeypatch, file, text):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (folder.parent / file).write_text(text)
    (folder.parent / "deep").mkdir()
    monkeypatch.chdir(folder.parent / "deep")
    assert cli.main(["cache", "info"]) == 0
    assert capsys.readouterr().out.endswith("cache: 2 built models, 0.00 GB\n")


def test_a_copy_that_is_not_installed_runs_under_the_name_of_its_module(monkeypatch):
    monkeypatch.setattr(project, "entry_points", lambda *, group: ())
    seen = []
    monkeypatch.setattr(pytest, "main", lambda arguments: seen.append(arguments[:2]) or 0)
    assert cli.main(["run"]) == 0
    assert seen == [["-p", "pytest_sdperf.plugin"]]


def test_a_copy_that_is_not_installed_finds_the_folders_too(folder, capsys, monkeypatch):
    # As where a copy is used: nothing else would load it, and asking for the entry point would fail.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_sdperf.plugin")
    monkeypatch.setattr(project, "entry_points", lambda *, group: ())
    (folder.parent / "pytest.ini").write_text("[pytest]\nsdperf_cache_dir = cache\n")
    monkeypatch.chdir(folder.parent)
    assert cli.main(["cache", "info"]) == 0
    assert capsys.readouterr().out.endswith("cache: 2 built models, 0.00 GB\n")


def test_a_configuration_that_pytest_cannot_read_leaves_the_flag(tmp_path, capsys, monkeypatch):
    (tmp_path / "pytest.ini").write_text("[pytest]\nminversion = 99\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["cache", "info"]) == 4
    assert capsys.readouterr().err.splitlines()[-1] == (
        "ERROR: pytest cannot read the configuration of this folder (exit status 4). Correct it, or name the folders "
        "of this command with its own options; see --help."
    )


def test_a_size_that_is_none_is_answered_with_what_is_allowed(folder, capsys):
    assert cli.main(["cache", "prune", f"--cache-dir={folder}", "--to=half"]) == 4
    assert capsys.readouterr().err == (
        "ERROR: --to=half is not a size. Allowed: a number with MB, GB, TB, MiB, GiB or TiB, bytes without; "
        "type for example --to=100GB.\n"
    )


def test_a_folder_without_a_cache_says_so(tmp_path, capsys):
    assert cli.main(["cache", "info", f"--cache-dir={tmp_path / 'no'}"]) == 4
    assert capsys.readouterr().err == (
        f"ERROR: there is no cache at {tmp_path / 'no'}. It appears with the first run, or name it with --cache-dir.\n"
    )


@pytest.mark.parametrize(
    ("name", "shown"), [("größe".encode(), b"gr\\xf6\\xdfe"), (b"gr\xf6\xdfe", b"gr\\udcf6\\udcdfe")]
)
def test_what_a_terminal_cannot_show_ends_no_command(tmp_path, name, shown):
    folder = tmp_path / os.fsdecode(name)
    Cache(folder, size_bytes=10**9).get_or_make("first", _make)
    code = "import sys; from pytest_sdperf.cli import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", code, "cache", "info", f"--cache-dir={folder}"],
        capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout == os.fsencode(tmp_path) + b"/" + shown + b": 1 built models, 0.00 GB\n"


def test_a_command_is_required(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == 2
    assert "the following arguments are required: COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "status"), [(["--help"], 0), (["--version"], 0), (["faults"], 0), (["run", "--help"], 141)]
)
def test_a_reader_that_has_seen_enough_ends_a_command_without_a_traceback(tmp_path, command, status):
    ours, theirs = os.pipe()
    os.close(ours)
    code = "import sys; from pytest_sdperf.cli import main; sys.exit(main())"
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code, *command], stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
    finally:
        os.close(theirs)
    assert (ended.returncode, ended.stderr) == (status, b"")
