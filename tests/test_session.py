"""The state of a run: whose baseline it is judged by."""

from __future__ import annotations

import os

import pytest

from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.catalog import Catalog
from pytest_sdperf.device import Device
from pytest_sdperf.errors import BaselineError
from pytest_sdperf.run import Run
from pytest_sdperf.session import Session
from pytest_sdperf.settings import Settings


@pytest.fixture
def session(tmp_path):
    catalog = Catalog()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        catalog.add_baselines(tmp_path / name)
    (tmp_path / "own").mkdir()
    run = Run(Settings(baselines=tmp_path / "own"), catalog, {}, "cpu")
    device = Device("cpu", "A CPU", "cpu-a-2c")
    run.device = lambda: device
    return Session(run, say=print)


def write(folder, cores):
    (folder / "cpu-a-2c.json").write_text(to_text(Baseline(machine={"cores": cores}, cases={})), encoding="utf-8")


@pytest.mark.parametrize(
    ("places", "cores"),
    [((), None), (("second",), 2), (("first", "second"), 1), (("own", "first"), 0)],
)
def test_the_projects_own_baseline_wins_over_registered_folders(session, tmp_path, places, cores):
    for place in places:
        write(tmp_path / place, ("own", "first", "second").index(place))
    found = session.baseline
    assert (found.machine["cores"] if found else None) == cores


def test_a_damaged_file_is_not_passed_over_for_the_next(session, tmp_path):
    (tmp_path / "own" / "cpu-a-2c.json").write_text("{", encoding="utf-8")
    write(tmp_path / "first", 1)
    with pytest.raises(BaselineError):
        session.check_files()


def test_cores_are_shared_and_given_back(session, monkeypatch):
    monkeypatch.setattr(Session, "cores", 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "6")

    with session.sharing_cores(4):
        assert os.environ["OMP_NUM_THREADS"] == "2"
    with session.sharing_cores(1):
        assert os.environ["OMP_NUM_THREADS"] == "6"
    assert os.environ["OMP_NUM_THREADS"] == "6"
    monkeypatch.delenv("OMP_NUM_THREADS")
    with session.sharing_cores(2):
        assert os.environ["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_user_who_asked_for_fewer_threads_gets_fewer(session, monkeypatch):

    monkeypatch.setattr(Session, "cores", 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with session.sharing_cores(2):
        assert os.environ["OMP_NUM_THREADS"] == "1"
