"""Workers that are forked from a process that has the libraries: the same as those that load them, only sooner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pytest_sdperf.builds.processes import forking
from pytest_sdperf.builds.processes.forking import ForkedProcess, forked, patient
from pytest_sdperf.builds.processes.process import run_task
from pytest_sdperf.core.catalog import Registrar

HERE = Path(__file__).parents[2]
REGISTRAR = Registrar("worker_tasks", HERE / "worker_tasks.py")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no other system forks with libraries loaded")


@pytest.fixture(scope="module")
def server():
    """A server of these tests: that of all tests has the variables that were set when they began."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(forking.VARIABLE, raising=False)
        yield forking._started.__wrapped__()


@pytest.fixture(autouse=True)
def with_server(server, monkeypatch):
    monkeypatch.setattr(forking, "_server", lambda: server)


def environment(**changed: str) -> dict[str, str]:
    return patient({**os.environ, **changed})


def forked_with(tmp_path: Path, *libraries: str, **changed: str) -> ForkedProcess | None:
    with (tmp_path / "stderr.txt").open("wb") as stderr:
        return forked(environment(**changed), libraries or ("numpy",), stderr)


def answer_of(tmp_path: Path, task: str, *libraries: str) -> dict[str, object]:
    return run_task(
        f"worker_tasks:{task}", {"n": 1}, out_dir=tmp_path / task, timeout_s=60, registrars=[REGISTRAR],
        libraries=libraries,
    )  # fmt: skip


def ended(process: ForkedProcess) -> int:
    process.stdin.close()
    status = process.wait(timeout=30)
    process.stdout.close()
    return status


def test_a_forked_process_has_the_libraries_and_nothing_of_the_suite(tmp_path):
    assert answer_of(tmp_path, "loaded", "json.tool") == {"json.tool": True, "msgspec": False, "pytest": False}
    assert answer_of(tmp_path, "loaded")["json.tool"] is False


def test_no_process_sees_what_another_one_did(tmp_path):
    assert [answer_of(tmp_path, "note_and_recall", "numpy")["noted"] for _ in range(2)] == [[1], [1]]


def test_each_process_draws_its_own_random_numbers(tmp_path):
    first, second = (answer_of(tmp_path, "draw", "numpy") for _ in range(2))
    assert first["numpy"] != second["numpy"]
    assert first["python"] != second["python"]


def test_the_folder_and_the_environment_are_those_of_the_one_who_asks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDPERF_SEEN", "yes")
    answer = answer_of(tmp_path, "surroundings", "numpy")
    assert answer == {"folder": str(tmp_path), "seen": "yes", "session": True, "threads": 1}


def test_a_library_that_is_missing_is_missing_in_the_task_alone(tmp_path):
    assert answer_of(tmp_path, "loaded", "no_such_library", "json.tool")["json.tool"] is True


@pytest.mark.parametrize("name", ["OMP_DYNAMIC", "PYTORCH_CUDA_ALLOC_CONF", "SOME_VARIABLE"])
def test_libraries_that_were_loaded_under_other_variables_are_loaded_again(tmp_path, name):
    assert forked_with(tmp_path, **{name: "other"}) is None


@pytest.mark.parametrize("asked", ["3", ""])
def test_torch_computes_in_the_threads_of_the_one_who_asks(tmp_path, monkeypatch, asked):
    """Builds that are made side by side share the cores; what a test asks for later has them all."""
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    answer = answer_of(tmp_path, "threads_of_torch", "torch")
    assert answer == {"threads": int(asked or len(os.sched_getaffinity(0))), "loaded": True}


def test_what_the_runs_of_these_tests_start_is_forked_too(tmp_path, monkeypatch, pytester):
    """Of the server that all tests share: `pytester`, tox and torch's compiler set variables of their own."""
    shared = os.environ.get(forking.VARIABLE)
    if shared is None:
        pytest.skip("nothing is forked where a GPU is")
    monkeypatch.setattr(forking, "_server", lambda: shared)
    process = forked_with(tmp_path, "json", TOX_ENV_NAME="full", TORCHINDUCTOR_CACHE_DIR="elsewhere")
    assert process is not None
    ended(process)


def test_a_folder_of_ones_own_that_has_a_module_of_the_same_name_comes_first_as_ever(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "helper.py").touch()
    harmless = forked_with(tmp_path, PYTHONPATH=str(tmp_path / "own"))
    assert harmless is not None
    ended(harmless)
    (tmp_path / "own" / "numpy.py").touch()
    assert forked_with(tmp_path, PYTHONPATH=str(tmp_path / "own")) is None


def test_the_end_of_a_process_is_told(tmp_path):
    process = forked_with(tmp_path)
    assert process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.1)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(timeout=30) == process.wait() == -signal.SIGTERM
    process.stdin.close()
    process.stdout.close()


@pytest.mark.parametrize("said", [b"", b"{", b"{}\n"])
def test_one_who_goes_away_in_the_middle_ends_no_server_for_the_others(tmp_path, server, said):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
        gone.connect(server)
        gone.sendall(said)
    process = forked_with(tmp_path)
    assert process is not None
    ended(process)


def test_without_a_server_processes_are_started(tmp_path, monkeypatch):
    monkeypatch.setattr(forking, "_server", lambda: str(tmp_path / "nobody"))
    assert forked_with(tmp_path) is None
    monkeypatch.setattr(forking, "_server", lambda: None)
    assert forked_with(tmp_path) is None
    assert answer_of(tmp_path, "loaded", "numpy")["pytest"] is False


def test_a_server_that_cannot_start_is_no_error(monkeypatch):
    monkeypatch.delenv(forking.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert forking._started.__wrapped__() is None


def test_nothing_is_forked_where_a_gpu_is(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(forking, "GPUS", ("/dev/null",))
    assert forking._server() is None


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems_start_each_process(monkeypatch, system):
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", system)
    assert forking._server() is None


def test_a_server_ends_with_the_session_that_started_it(tmp_path):
    program = (
        "import os; from pytest_sdperf.builds.processes import forking\n"
        "forking.share(); print(os.environ[forking.VARIABLE], flush=True)\n"
    )
    env = {name: value for name, value in os.environ.items() if name != forking.VARIABLE}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    path = done.stdout.strip()
    assert not Path(path).exists()
    assert not [one for one in psutil.process_iter(["cmdline"]) if path in (one.info["cmdline"] or ())]


def test_a_session_that_is_killed_takes_its_server_with_it():
    program = (
        "import os, time; from pytest_sdperf.builds.processes import forking\n"
        "forking.share(); print(os.environ[forking.VARIABLE], flush=True); time.sleep(600)\n"
    )
    env = {name: value for name, value in os.environ.items() if name != forking.VARIABLE}
    session = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
    with session:
        assert session.stdout is not None
        path = session.stdout.readline().strip()
        (server,) = [one for one in psutil.process_iter(["cmdline"]) if path in (one.info["cmdline"] or ())]
        session.kill()
    for _ in range(100):
        if not server.is_running() or server.status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    pytest.fail("the server lives on")
