"""A worker process: its protocol, its interpreter, and every way in which it can end."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pytest_sdperf.builds.processes import children
from pytest_sdperf.builds.processes.events import Event
from pytest_sdperf.builds.processes.process import run_task, started
from pytest_sdperf.core.catalog import Registrar
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError, WorkerError
from pytest_sdperf.tasks import worker

HERE = Path(__file__).parents[2]
REGISTRAR = Registrar("worker_tasks", HERE / "worker_tasks.py")
# A process that is started, and one that is forked from a process that has a library.
both_ways = pytest.mark.parametrize("libraries", [(), ("numpy",)], ids=["started", "forked"])


def run(name, tmp_path, *, timeout_s=30.0, **kwargs):
    return run_task(
        f"worker_tasks:{name}", {"n": 1}, out_dir=tmp_path / name, timeout_s=timeout_s, registrars=[REGISTRAR], **kwargs
    )


@both_ways
def test_answer_events_and_files_arrive_although_libraries_print(tmp_path, libraries):
    events: list[Event] = []
    answer = run("echo", tmp_path, libraries=libraries, on_event=events.append)
    assert answer["arguments"] == {"n": 1}
    assert answer["suite"] is False
    assert events == [Event("begin", "first_run"), Event("say", "half way"), Event("end", "first_run")]
    assert (tmp_path / "echo" / "made.txt").read_text(encoding="utf-8") == "made"
    stderr = (tmp_path / "echo" / "stderr.txt").read_text(encoding="utf-8")
    assert "a library prints to stdout" in stderr
    assert "and so does its C code" in stderr


@pytest.mark.parametrize("in_process", [False, True])
def test_nothing_is_warmed_up_before_the_suite_has_ended_what_it_reads(tmp_path, in_process, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    ended_s = []

    def listen(event):
        if event == Event("begin", "warmup"):
            time.sleep(0.3)
            ended_s.append(time.monotonic())

    answer = run("warm_up", tmp_path, in_process=in_process, on_event=listen)
    assert answer["begun_s"] >= ended_s[0]


def test_a_worker_goes_on_where_nobody_listens(tmp_path):
    assert run("warm_up", tmp_path)["begun_s"] > 0


@both_ways
@pytest.mark.parametrize("end", ["warm_up", "hang"])
def test_a_process_that_cannot_be_ended_is_left_behind(tmp_path, monkeypatch, end, libraries):
    """As where a driver holds it in the kernel: no signal arrives."""
    left = []
    monkeypatch.setattr(children, "END_S", 0.2)
    monkeypatch.setattr(children, "kill", functools.partial(signal_lost, left))
    begun_s = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        run(end, tmp_path, libraries=libraries, timeout_s=3.0)
    assert time.monotonic() - begun_s < 20
    (process,) = left
    assert str(caught.value) == (
        f"process {process.pid} was killed and did not end within 0.2 s: the driver of a device holds it, and it may "
        "still use that device"
    )
    assert caught.value.reason == "stuck"
    with contextlib.suppress(ProcessLookupError):  # one that was forked and has ended by itself
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def signal_lost(left, process):
    left.append(process)
    return False


def test_a_process_that_does_not_end_when_it_is_killed_is_waited_for_no_longer_than_that(monkeypatch):
    monkeypatch.setattr(children, "END_S", 0.2)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    with monkeypatch.context() as lost:
        lost.setattr(os, "killpg", lambda group, signal: None)
        assert children.kill(process) is False
    monkeypatch.setattr(children, "END_S", 30.0)
    assert children.kill(process) is True


def test_in_process_gives_the_same_answer_and_events(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    events: list[Event] = []
    answer = run("echo", tmp_path, in_process=True, on_event=events.append)
    assert answer["python"] == sys.executable
    assert [event.name for event in events] == ["begin", "say", "end"]


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize("before", [None, "no"])
def test_environment_of_a_profile_reaches_the_worker_and_nothing_else(tmp_path, monkeypatch, in_process, before):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.delenv("SEEN", raising=False)
    if before:
        monkeypatch.setenv("SEEN", before)
    assert run("environment", tmp_path, env={"SEEN": "yes"}, in_process=in_process)["SEEN"] == "yes"
    with pytest.raises(BuildError):
        run("refuse", tmp_path, env={"SEEN": "yes"}, in_process=in_process)
    assert os.environ.get("SEEN") == before


def test_another_interpreter_cannot_run_in_this_process(tmp_path):
    with pytest.raises(ValueError) as caught:
        run("echo", tmp_path, in_process=True, python=Path("/other/python"))
    assert str(caught.value) == "/other/python cannot run a task inside this process"


@pytest.mark.slow
def test_a_foreign_interpreter_needs_nothing_of_the_suite(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    probe = subprocess.run([python, "-c", "import pytest_sdperf"], cwd=tmp_path, capture_output=True, check=False)
    assert probe.returncode == 1
    answer = run("environment", tmp_path, python=python)
    assert answer == {"SEEN": "", "msgspec": False, "version": __import__("pytest_sdperf").__version__}


@both_ways
@pytest.mark.parametrize(
    ("task", "error", "reason", "text"),
    [
        ("segfault", WorkerError, "crash", "the worker was ended by SIGSEGV"),
        (
            "killed",
            WorkerError,
            "killed",
            "the worker was ended by SIGKILL; the kernel may have run out of host memory",
        ),
        ("vanish", WorkerError, "crash", "the worker ended with exit status 7 and no answer"),
        ("fail", WorkerError, "error", "ValueError: a bad value"),
        ("babble", WorkerError, "protocol", "the worker sent b'garbage\\n' instead of an event"),
        ("host_memory", OutOfMemoryError, "", "MemoryError: no room"),
        (
            "device_memory",
            OutOfMemoryError,
            "",
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        ),
        (
            "device_memory_in_ort",
            OutOfMemoryError,
            "",
            (
                "RuntimeError: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : bfc_arena.cc:359 Failed to allocate memory "
                "for requested buffer"
            ),
        ),
        ("refuse", BuildError, "", "the component cannot be built; type something else"),
    ],
)
def test_every_end_has_its_error(tmp_path, task, error, reason, text, *, libraries):
    with pytest.raises(error) as caught:
        run(task, tmp_path, libraries=libraries)
    assert str(caught.value) == text
    assert getattr(caught.value, "reason", "") == reason


@both_ways
def test_the_last_words_of_a_crash_are_kept(tmp_path, libraries):
    with pytest.raises(WorkerError) as caught:
        run("segfault", tmp_path, libraries=libraries)
    assert caught.value.tail.splitlines()[0] == "last words"


@both_ways
def test_a_hang_is_ended_with_its_children(tmp_path, libraries):
    said: list[str] = []
    with pytest.raises(WorkerError) as caught:
        run("hang", tmp_path, libraries=libraries, timeout_s=3.0, on_event=lambda event: said.append(event.text))
    assert str(caught.value) == "the worker gave no answer within 3 s and was ended"
    assert caught.value.reason == "timeout"
    pid = int(said[0].removeprefix("child "))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


ABANDONED = """
import os, sys
from pathlib import Path
from pytest_sdperf.builds.processes.process import run_task
from pytest_sdperf.core.catalog import Registrar

def leave(event):
    os.write(1, event.text.encode())
    os._exit(1)

run_task(
    "worker_tasks:nap", {}, out_dir=Path(sys.argv[2]), timeout_s=600.0, libraries=tuple(sys.argv[3:]),
    registrars=[Registrar("worker_tasks", Path(sys.argv[1]))], on_event=leave,
)
"""


@both_ways
def test_a_worker_that_nobody_waits_for_any_more_ends_once_it_is_done(tmp_path, libraries):
    """As where pytest-timeout ends pytest, or somebody kills it."""
    told = [str(HERE / "worker_tasks.py"), str(tmp_path / "out"), *libraries]
    left = subprocess.run([sys.executable, "-c", ABANDONED, *told], capture_output=True, text=True, check=False)
    assert left.returncode == 1
    assert has_ended(int(left.stdout.removeprefix("child ")))


def has_ended(pid: int) -> bool:
    """Give a killed process a moment to go; in a container nobody may collect what is left of it."""
    for _ in range(100):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("groups", [True, False])
@pytest.mark.parametrize("end", ["hang", "answer"])
def test_children_of_a_worker_end_with_it(tmp_path, monkeypatch, groups, end):
    if not groups:  # as on Windows
        monkeypatch.delattr(os, "killpg")
    said: list[str] = []
    with pytest.raises(WorkerError) if end == "hang" else contextlib.nullcontext():
        run(f"{end}_with_child", tmp_path, timeout_s=3.0, on_event=lambda event: said.append(event.text))
    assert has_ended(int(said[0]))


def test_children_of_a_worker_that_has_ended_are_found_by_its_id(monkeypatch):
    # Linux gives them another parent, so the table of processes is played.
    ended: list[int] = []

    class Row:
        def __init__(self, pid: int, parent: int, *below: Row) -> None:
            self.pid, self.info, self.below = pid, {"ppid": parent}, below

        def children(self, *, recursive: bool) -> list[Row]:
            return list(self.below)

        def kill(self) -> None:
            ended.append(self.pid)

    def gone(pid: int) -> None:
        raise psutil.NoSuchProcess(pid)

    worker_process = subprocess.Popen([sys.executable, "-c", ""])
    worker_process.wait()
    grandchild = Row(3, 2)
    rows = [Row(2, worker_process.pid, grandchild), grandchild, Row(9, 1)]
    monkeypatch.setattr(psutil, "Process", gone)
    monkeypatch.setattr(psutil, "process_iter", lambda attributes: rows)
    monkeypatch.setattr(psutil, "wait_procs", lambda processes, timeout: None)
    monkeypatch.delattr(os, "killpg")
    children.kill(worker_process)
    assert ended == [2, 3]


def test_an_interpreter_that_is_not_there(tmp_path):
    with pytest.raises(WorkerError) as caught:
        run("echo", tmp_path, python=tmp_path / "no" / "python")
    assert str(caught.value) == (
        f"the interpreter {tmp_path}/no/python cannot be started (No such file or directory). "
        "Check --sdperf-ab, or the 'python' of the profile in [tool.sdperf.engines]."
    )


@both_ways
def test_a_worker_of_another_protocol_says_which_it_speaks(tmp_path, monkeypatch, libraries):
    monkeypatch.setattr(worker, "PROTOCOL", 99)
    with pytest.raises(WorkerError) as caught:
        run("echo", tmp_path, libraries=libraries)
    assert str(caught.value) == "this worker speaks protocol 3"
    assert caught.value.reason == "protocol"


def test_the_worker_does_not_shadow_modules_by_its_own_folder():
    job = '{"protocol": 0}'
    answer = subprocess.run(
        [sys.executable, worker.__file__], input=job, capture_output=True, text=True, check=True, timeout=30
    )
    assert answer.stdout.startswith('{"event": "answer"')


def waiting(name, tmp_path, *, preload):
    return started(out_dir=tmp_path / name, registrars=[REGISTRAR], preload=(f"worker_tasks:{preload}", {"n": 7}))


def recall(one):
    return one.run("worker_tasks:recall", {"n": 1}, timeout_s=30.0)


def test_processes_get_ready_side_by_side_and_run_one_by_one(tmp_path):
    with waiting("a", tmp_path, preload="note") as first, waiting("b", tmp_path, preload="note") as second:
        for one in (second, first):
            one.until_ready(30.0)
        for one in (first, second):
            assert recall(one) | {"spins": ""} == {"noted": [7], "n": 1, "spins": ""}


def test_what_is_said_while_getting_ready_is_no_event_of_the_task(tmp_path):
    said: list[Event] = []
    with waiting("a", tmp_path, preload="note") as one:
        one.run("worker_tasks:recall", {"n": 1}, timeout_s=30.0, on_event=said.append)
    assert said == []


@pytest.mark.parametrize("preload", ["fail", "refuse", "host_memory"])
def test_a_process_that_cannot_get_ready_still_runs_its_task(tmp_path, preload):
    with waiting("a", tmp_path, preload=preload) as one:
        one.until_ready(30.0)
        assert recall(one)["n"] == 1


@pytest.mark.parametrize(
    ("preload", "reason", "text"),
    [
        ("vanish", "crash", "the worker ended with exit status 7 and no answer"),
        ("segfault", "crash", "the worker was ended by SIGSEGV"),
    ],
)
def test_a_process_that_dies_while_getting_ready_says_so_when_it_is_to_run(tmp_path, preload, reason, text):
    with waiting("a", tmp_path, preload=preload) as one:
        one.until_ready(30.0)
        with pytest.raises(WorkerError) as caught:
            recall(one)
    assert (str(caught.value), caught.value.reason) == (text, reason)


def test_getting_ready_has_a_time_limit(tmp_path):
    with waiting("a", tmp_path, preload="hang") as one, pytest.raises(WorkerError) as caught:
        one.until_ready(2.0)
    assert str(caught.value) == "the worker gave no answer within 2 s and was ended"
    assert caught.value.reason == "timeout"


def test_a_process_that_nobody_calls_is_ended(tmp_path):
    with waiting("a", tmp_path, preload="note") as one:
        one.until_ready(30.0)
        pid = one._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


SPIN, POLICY = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"


@pytest.mark.parametrize(
    ("inherited", "own", "spins"),
    [
        ({}, {}, "10000"),
        ({SPIN: "5"}, {}, "5"),
        ({}, {SPIN: "5"}, "5"),
        ({SPIN: "5"}, {SPIN: "6"}, "6"),
        ({POLICY: "ACTIVE"}, {}, None),  # a number of spins would override it
        ({}, {POLICY: "PASSIVE"}, None),
    ],
)
def test_waiting_threads_do_not_spin_for_long_unless_somebody_says_otherwise(
    tmp_path, monkeypatch, inherited, own, spins
):
    for name in (SPIN, POLICY):
        monkeypatch.delenv(name, raising=False)
    for name, value in inherited.items():
        monkeypatch.setenv(name, value)
    assert run("recall", tmp_path, env=own)["spins"] == spins
