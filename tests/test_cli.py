from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import pytest
from door_toys import ToyEngine, ToyProbe

from pytest_sdperf import builtins, cli
from pytest_sdperf.building.cache import Cache
from pytest_sdperf.device import Device, DeviceProbe
from pytest_sdperf.errors import DeviceMissingError


@pytest.fixture
def cache(tmp_path):
    """A cache that holds two artifacts of 1 MB."""
    found = Cache(tmp_path / "cache", size_bytes=10**9)

    def make(folder):
        (folder / "model.onnx").write_bytes(b"x" * 10**6)
        return {}

    for key in ("first", "second"):
        found.get_or_make(key, make)
    return found


def test_run_is_pytest_on_the_installed_suites_with_the_short_names(monkeypatch):
    seen: list[list[str]] = []

    def main(arguments):
        seen.append(arguments)
        return 0

    monkeypatch.setattr(pytest, "main", main)
    assert cli.main(["run", "--gpu=a100", "-k", "unet", "--help"]) == 0
    assert seen == [["-p", "pytest_sdperf.short_names", *cli.suites(), "--gpu=a100", "-k", "unet", "--help"]]


def test_the_suites_are_a_package_of_the_wheel_or_a_folder_of_the_source_tree(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert cli.suites() == ["--pyargs", "pytest_sdperf.suites"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (folder,) = cli.suites()
    assert folder == str(Path(__file__).resolve().parents[1] / "suites")


def test_cache_info_says_how_much_there_is(cache, capsys):
    assert cli.main(["cache", "info", f"--cache-dir={cache.folder}"]) == 0
    assert capsys.readouterr().out == f"{cache.folder}: 2 built models, 0.00 GB\n"


def test_cache_prune_removes_the_least_recently_used(cache, capsys):
    assert cli.main(["cache", "prune", f"--cache-dir={cache.folder}", "--to=1.5MB"]) == 0
    assert capsys.readouterr().out == "removed first\n1 built models removed\n"
    assert cli.main(["cache", "prune", f"--cache-dir={cache.folder}"]) == 0
    assert capsys.readouterr().out == "removed second\n1 built models removed\n"


def test_a_size_that_is_none_is_answered_with_what_is_allowed(cache, capsys):
    assert cli.main(["cache", "prune", f"--cache-dir={cache.folder}", "--to=half"]) == 4
    assert capsys.readouterr().err == (
        "ERROR: --to=half is not a size. Allowed: a number with MB, GB, TB, MiB, GiB or TiB, bytes without; "
        "type for example --to=100GB.\n"
    )


def test_a_folder_without_a_cache_says_so(tmp_path, capsys):
    assert cli.main(["cache", "info", f"--cache-dir={tmp_path / 'no'}"]) == 4
    assert capsys.readouterr().err == (
        f"ERROR: there is no cache at {tmp_path / 'no'}. It appears with the first run, or name it with --cache-dir.\n"
    )


class NoDriver(DeviceProbe):
    name = "nowhere"
    kind = "cuda"

    def find(self):
        raise DeviceMissingError("no driver is installed")

    def health(self, device):
        raise NotImplementedError


def test_doctor_says_what_works_and_what_the_others_need(monkeypatch):
    def register(catalog):
        catalog.add_engine(ToyEngine("here", needs="pytest"))
        catalog.add_engine(ToyEngine("gone", needs="a_module_that_nobody_has"))
        catalog.add_device_probe(ToyProbe(Device("cpu", "Toy CPU", "toy-cpu")))
        catalog.add_device_probe(NoDriver())

    monkeypatch.setattr(builtins, "pytest_sdperf_register", register)
    assert list(cli.doctor(argparse.Namespace())) == [
        "engines",
        f"  here: ready (pytest {pytest.__version__}; runs on cpu)",
        "  gone: package 'a_module_that_nobody_has' is not installed; type: pip install a_module_that_nobody_has",
        "devices",
        "  toy-cpu: Toy CPU (toy-cpu)",
        "  nowhere: no driver is installed",
    ]


def test_a_command_is_required(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == 2
    assert "the following arguments are required: COMMAND" in capsys.readouterr().err
