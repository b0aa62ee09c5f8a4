"""The parent's side of a worker process: start it, follow its events, end it when it hangs, read its answer."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pytest_sdperf import clock, errors, worker
from pytest_sdperf.catalog import Catalog, Registrar
from pytest_sdperf.contracts import PhaseListener
from pytest_sdperf.tasks import TaskContext

TAIL_LINES = 12
_END_S = 10.0


@dataclass(frozen=True)
class Event:
    """Something a worker told while it ran.

    Attributes:
        name: `say`, `begin` or `end`.
        text: The line of progress, or the name of the phase.
    """

    name: str
    text: str


def run_task(
    task: str,
    arguments: Mapping[str, Any],
    *,
    out_dir: Path,
    timeout_s: float,
    registrars: Sequence[Registrar] = (),
    python: Path | None = None,
    env: Mapping[str, str] | None = None,
    in_process: bool = False,
    on_event: Callable[[Event], None] | None = None,
) -> dict[str, Any]:
    """Run one task in a fresh process and return its answer.

    Args:
        task: `package.module:function`.
        arguments: Plain JSON data.
        out_dir: Folder for the task's files and its stderr; it is created.
        timeout_s: After this many seconds the process and its children are killed.
        registrars: Modules that register what the task needs.
        python: Interpreter; None is this one.
        env: Variables on top of this process's environment.
        in_process: Run in this process instead, so that a debugger can follow; `env` is set for the duration.
        on_event: Called for every event while the task runs.

    Raises:
        OutOfMemoryError: Memory ran out in the task.
        SdperfError: The task refused, with its own class and text.
        WorkerError: The process crashed, was killed, hung or did not answer.
        ValueError: Both `python` and `in_process`.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    listen = on_event or (lambda event: None)
    if in_process:
        if python is not None:
            raise ValueError(f"{python} cannot run a task inside this process")
        with _environment(env or {}):
            return _answer(_run_here(task, arguments, out_dir, registrars, listen), out_dir)
    job = {
        "protocol": worker.PROTOCOL,
        "task": task,
        "arguments": arguments,
        "out_dir": str(out_dir),
        "registrars": [{"module": owner.module, "root": str(owner.root)} for owner in registrars],
        # A foreign interpreter gets none of our packages; our own gets what a conftest may have added.
        "sys_path": [] if python else [entry for entry in sys.path if entry],
    }
    with _started(python, env, out_dir) as process:
        return _answer(_follow(process, job, timeout_s, listen), out_dir)


@contextlib.contextmanager
def _started(python: Path | None, env: Mapping[str, str] | None, out_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(python or sys.executable), str(Path(worker.__file__).resolve())]
    with (out_dir / "stderr.txt").open("wb") as stderr:
        try:
            process = subprocess.Popen(  # noqa: S603 - the interpreter is the user's own choice
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise errors.WorkerError(
                f"the interpreter {command[0]} cannot be started ({error.strerror}). "
                f"Check the 'python' of the profile in [tool.sdperf.engines].",
                reason="refused",
            ) from error
    try:
        yield process
    finally:
        _kill(process)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children; whatever it started must not disturb the next measurement."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            _kill_tree(process)
    process.wait()


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children where there are no process groups."""
    import psutil

    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        # On Windows they keep the id of their parent, and nobody else gets it while we hold the parent's handle.
        children = [child for child in psutil.process_iter(["ppid"]) if child.info["ppid"] == process.pid]
        for child in tuple(children):
            with contextlib.suppress(psutil.NoSuchProcess):
                children += child.children(recursive=True)
    process.kill()
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children, timeout=_END_S)


def _follow(
    process: subprocess.Popen[bytes],
    job: Mapping[str, Any],
    timeout_s: float,
    listen: Callable[[Event], None],
) -> dict[str, Any]:
    """Send the job, pass events on, and return the final event or what can be said without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
    for line in _lines(process.stdout, timeout_s):
        if line is None:
            return {"status": "timeout", "message": f"the worker gave no answer within {timeout_s:g} s and was ended"}
        try:
            event = json.loads(line)
            name = event["event"]
        except (ValueError, TypeError, KeyError):
            return {"status": "protocol", "message": f"the worker sent {line[:200]!r} instead of an event"}
        if name == "answer":
            return dict(event)
        listen(Event(name, event.get("text") or event.get("phase", "")))
    return _ended_without_answer(process.wait())


def _lines(stream: IO[bytes], timeout_s: float) -> Iterator[bytes | None]:
    """Yield complete lines as they come; None when the time is over.

    A thread reads, because Windows cannot wait for a pipe with a time limit.
    """
    arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in stream:
                arrived.put(line)
        arrived.put(None)

    threading.Thread(target=read, daemon=True, name="sdperf-worker-reader").start()
    deadline = clock.monotonic_s() + timeout_s
    while True:
        try:
            line = arrived.get(timeout=max(0.0, deadline - clock.monotonic_s()))
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        yield line


def _ended_without_answer(status: int) -> dict[str, Any]:
    if status >= 0:
        return {"status": "crash", "message": f"the worker ended with exit status {status} and no answer"}
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    reason = "killed" if -status == signal.SIGKILL else "crash"
    hint = "; the kernel may have run out of host memory" if reason == "killed" else ""
    return {"status": reason, "message": f"the worker was ended by {name}{hint}"}


def _answer(final: Mapping[str, Any], out_dir: Path) -> dict[str, Any]:
    """Turn the final event into the task's answer or into an exception."""
    status = final["status"]
    if status == "ok":
        return dict(final["value"])
    tail = _tail(out_dir / "stderr.txt")
    if status == "oom":
        raise errors.OutOfMemoryError(final["message"])
    if status == "refused":
        kind = getattr(errors, final["kind"], errors.SdperfError)
        error = errors.SdperfError.__new__(kind)
        Exception.__init__(error, final["message"])
        if isinstance(error, errors.WorkerError):
            error.reason, error.tail = "error", tail
        raise error
    raise errors.WorkerError(final["message"], reason=status, tail=tail)


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-TAIL_LINES:])


@contextlib.contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process and put back what was there."""
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Listener(PhaseListener):
    """Passes phases of an in-process task on as events."""

    def __init__(self, listen: Callable[[Event], None]) -> None:
        self._listen = listen

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Announce the begin and the end of a phase."""
        self._listen(Event("begin", name))
        yield
        self._listen(Event("end", name))


def _run_here(
    task: str,
    arguments: Mapping[str, Any],
    out_dir: Path,
    registrars: Sequence[Registrar],
    listen: Callable[[Event], None],
) -> dict[str, Any]:
    catalog = Catalog()
    for owner in registrars:
        with catalog.owned_by(owner):
            importlib.import_module(owner.module).pytest_sdperf_register(catalog)
    module, _, function = task.partition(":")
    context = TaskContext(out_dir, catalog, _Listener(listen), lambda text: listen(Event("say", text)))
    value = getattr(importlib.import_module(module), function)(json.loads(json.dumps(arguments)), context)
    return {"status": "ok", "value": value}
