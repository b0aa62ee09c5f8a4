"""The state of a run: whose baseline it is judged by."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from door_toys import ToyProbe, toy_catalog
from sample_values import CASE, case, measurement, stored
from sample_values import session as session_of

from pytest_sdperf.baselines.counts import files_for
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.shipped import shipped_folder
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.fusions.check import Fused
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import BaselineError, DeviceMissingError, EngineMissingError
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.run import Run
from pytest_sdperf.plugin.session import Session
from pytest_sdperf.tasks.calibrate import CalibrateDevice


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
    session = Session(run, say=print)
    yield session
    session.close()


OTHER = dataclasses.replace(CASE, batch_size=4)


def write(folder, *cases, ms=10.0):
    content = Baseline(machine={"pool": "default"}, cases={one.key: stored(session_of(ms), of=one) for one in cases})
    (folder / "cpu-a-2c.json").write_text(to_text(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("places", "judge"),
    [((), None), (("second",), "second"), (("first", "second"), "first"), (("own", "first"), "own")],
)
def test_a_case_is_judged_by_the_projects_own_file_then_by_those_of_registered_folders(
    session, tmp_path, places, judge
):
    for place in places:
        write(tmp_path / place, CASE)
    source = session.sources.source_of(CASE)
    assert (source.path.parent.name if source else None) == judge


def test_a_case_that_the_own_file_lacks_is_judged_by_the_next_one(session, tmp_path):
    write(tmp_path / "own", OTHER)
    write(tmp_path / "second", CASE, OTHER, ms=20.0)
    policy = Policy(processes=3)
    slow = (measurement(20.0, 20.0, 20.0, case=one) for one in (CASE, OTHER))
    found = [session.judge(one, policy=policy)[0] for one in slow]
    assert [verdict.outcome for verdict in found] == [Outcome.HELD, Outcome.REGRESSED]
    assert sorted(session.sources.baseline.cases) == sorted([CASE.key, OTHER.key])
    assert session.sources.own == tmp_path / "own" / "cpu-a-2c.json"


def test_a_folder_that_is_registered_twice_is_asked_once(session, tmp_path):
    session.run.catalog.add_baselines(tmp_path / "own")
    write(tmp_path / "own", CASE)
    assert len(session.sources.files) == 1


def test_a_damaged_file_is_not_passed_over_for_the_next(session, tmp_path):
    (tmp_path / "own" / "cpu-a-2c.json").write_text("{", encoding="utf-8")
    write(tmp_path / "first", CASE)
    with pytest.raises(BaselineError):
        session.check_files()


def test_a_new_release_is_judged_by_the_counts_that_are_shipped_of_the_last_one(session, monkeypatch):
    monkeypatch.setattr("pytest_sdperf.plugin.session.library_versions", lambda name: {name: "9.9.0"})
    build = case(engine="", model="sd15-thin", component="unet", optimization="bias-add", fuser="ort")
    found = session.known_counts(Fused(), build)
    assert found.older == ".".join(map(str, max(files_for(shipped_folder("fusions") / "onnxruntime-9.9.json"))))
    assert found.counts["com.microsoft::NhwcConv"] == 98
    assert session.known_counts(Fused(), case(fuser="native")) is None


def test_a_damaged_file_of_an_older_release_ends_the_run_before_its_first_test(session, tmp_path, monkeypatch):
    session.run.catalog.add_check(Fused())
    monkeypatch.setattr("pytest_sdperf.plugin.session.library_versions", lambda name: {name: "9.9.0"})
    (tmp_path / "own" / "fusions").mkdir()
    path = tmp_path / "own" / "fusions" / "onnxruntime-1.32.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(BaselineError) as caught:
        session.check_files()
    assert str(caught.value) == (
        f"file of fusion counts {path} is not valid: line 1, column 2: Expecting property name enclosed in double "
        f"quotes. Nothing was written to it. Restore it from version control, or move it away and record it again "
        f"with --sdperf-update-baselines."
    )


def test_what_needs_no_device_may_use_a_gpu_that_is_there(session):
    session.run.probe = lambda: None
    assert session.gpu is None
    session.run.device_kind = "cuda"
    assert session.gpu is session.context

    def missing():
        raise DeviceMissingError("there is no GPU")

    session.run.device = missing
    del session.context
    assert session.gpu is None


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


OTHER_PYTHON = Path("/opt/other/bin/python")
ANSWER = {"flops_per_s": 7.9e14, "bytes_per_s": 3e12, "dtype": "float16", "by": "torch 2.13.0"}


@pytest.fixture
def asked(session, monkeypatch, tmp_path):
    """A session on a GPU, and what it asked of which process."""
    card = Device("cuda", "NVIDIA T4", "t4", uuid="GPU-1")
    session.run.device = lambda: card
    session.run.probe = lambda: ToyProbe(card)
    session.run.catalog = toy_catalog()
    session.run.request_of = lambda case: EngineRequest(case.engine, case.engine, python=OTHER_PYTHON)
    found = []

    def run_task(task, arguments, **how):
        found.append((task, arguments, how["python"], how["env"]["CUDA_VISIBLE_DEVICES"]))
        return ANSWER

    monkeypatch.setattr("pytest_sdperf.checks.pipelines.calibrator.run_task", run_task)
    return found


def test_the_device_is_calibrated_once(session, asked):
    assert session.calibration(CASE) == session.calibration(CASE) == Calibration(**ANSWER)
    task = "pytest_sdperf.tasks.calibrate:run"
    assert asked == [(task, CalibrateDevice("cuda"), None, "GPU-1")]


def test_where_the_suite_has_no_torch_the_interpreter_of_the_profile_is_asked(session, asked, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", {}.get)
    session.calibration(CASE)
    assert asked[0][2] == OTHER_PYTHON


def test_a_processor_is_calibrated_with_all_its_cores(session, asked, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    session.run.device = lambda: Device("cpu", "Toy CPU", "toy-cpu", machine={"cores": 8})
    given = {}
    monkeypatch.setattr(
        "pytest_sdperf.checks.pipelines.calibrator.run_task", lambda *_, env, **how: given.update(env) or ANSWER
    )
    session.calibration(CASE)
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    assert {given[name] for name in threads} == {"8"}


def test_what_cannot_be_calibrated_is_said_once(session, asked, monkeypatch):
    def run_task(*arguments, **how):
        raise EngineMissingError("no torch")

    monkeypatch.setattr("pytest_sdperf.checks.pipelines.calibrator.run_task", run_task)
    session.say = asked.append
    assert session.calibration(CASE) is session.calibration(CASE) is None
    assert asked == ["not calibrated: no torch"]
