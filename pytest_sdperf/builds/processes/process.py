"""The parent's side of a worker process: start it, follow its events, end it when it hangs, read its answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_sdperf.builds.processes import children
from pytest_sdperf.builds.processes.events import Announcer, Event, shown
from pytest_sdperf.builds.processes.forking import patient
from pytest_sdperf.core import errors, progress
from pytest_sdperf.core.catalog import Registrar
from pytest_sdperf.core.values import to_json
from pytest_sdperf.tasks import worker

Preload = tuple[str, Mapping[str, Any]]

_WHAT = "waiting for a worker process"


def run_task(
    task: str,
    arguments: Any,
    *,
    out_dir: Path,
    timeout_s: float,
    registrars: Sequence[Registrar] = (),
    python: Path | None = None,
    env: Mapping[str, str] | None = None,
    preload: Preload | None = None,
    in_process: bool = False,
    cache_dir: Path | None = None,
    libraries: Sequence[str] = (),
    on_event: Callable[[Event], None] | None = None,
    what: str = _WHAT,
    option: str = progress.WORKER_TIMEOUT,
) -> dict[str, Any]:
    """Run one task in a fresh process and return its answer.

    Args:
        task: `package.module:function`.
        arguments: What the task's first parameter is: a frozen dataclass, or plain JSON data.
        out_dir: Folder for the task's files and its stderr; it is created.
        timeout_s: After this many seconds the process and its children are killed.
        registrars: Modules that register what the task needs.
        python: Interpreter; None is this one.
        env: Variables on top of this process's environment.
        preload: What the process does first; see `started`.
        in_process: Run in this process instead, so that a debugger can follow; `env` is set for the duration.
        cache_dir: Folder of the cache, for a task that makes an entry of it.
        libraries: What the task imports; where any are named, the process may be forked from one that has them.
        on_event: Called for every event while the task runs.
        what: What is shown until the task says something itself, unless a step is open that this is part of.
        option: Ini option that changes `timeout_s`.

    Raises:
        OutOfMemoryError: Memory ran out in the task.
        SdperfError: The task refused, with its own class and text.
        WorkerError: The process crashed, was killed, hung, did not answer or cannot be ended.
        ValueError: Both `python` and `in_process`.
    """
    if in_process:
        if python is not None:
            raise ValueError(f"{python} cannot run a task inside this process")
        out_dir.mkdir(parents=True, exist_ok=True)
        sent = json.loads(json.dumps(to_json(arguments)))
        job = {**_job(out_dir, registrars, cache_dir), "task": task, "arguments": sent}
        with environment(env or {}), _step(what, None) as step:
            return dict(worker.answer_to(job, Announcer(shown(step, on_event))))
    how: dict[str, Any] = {
        "registrars": registrars,
        "python": python,
        "env": env,
        "preload": preload,
        "libraries": libraries,
    }
    # Starting counts too: the first process of a run waits for a server that imports torch.
    with _step(what, None), started(out_dir=out_dir, cache_dir=cache_dir, **how) as waiting:
        return waiting.run(task, arguments, timeout_s=timeout_s, on_event=on_event, what=what, option=option)


@contextlib.contextmanager
def started(
    *,
    out_dir: Path,
    registrars: Sequence[Registrar] = (),
    python: Path | None = None,
    env: Mapping[str, str] | None = None,
    preload: Preload | None = None,
    cache_dir: Path | None = None,
    libraries: Sequence[str] = (),
) -> Iterator[IdleWorker]:
    """Start a worker process that waits for its task; leaving the context ends it with its children.

    Args:
        out_dir: As for `run_task`.
        registrars: As for `run_task`.
        python: As for `run_task`.
        env: As for `run_task`.
        preload: A task and its arguments, run at once; nobody reads its answer. It imports what the real task needs.
        cache_dir: As for `run_task`.
        libraries: As for `run_task`.

    Raises:
        WorkerError: The interpreter cannot be started.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    first = {
        **_job(out_dir, registrars, cache_dir),
        "protocol": worker.PROTOCOL,
        # A foreign interpreter gets none of our packages; our own gets what a conftest may have added.
        "sys_path": [] if python else [entry for entry in sys.path if entry],
        "preload": preload and {"task": preload[0], "arguments": preload[1]},
    }
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(_opened(python, env or {}, out_dir, libraries))
        _send(process, first)
        yield IdleWorker(process, out_dir, end=stack.close)


class IdleWorker:
    """A worker process that was started and waits for its one task."""

    def __init__(self, process: children.Process, out_dir: Path, *, end: Callable[[], None]) -> None:
        assert process.stdout is not None
        self._process, self._out_dir, self._end = process, out_dir, end
        self._lines = children.Lines(process.stdout, is_signal=worker.says_ready)

    def until_ready(self, timeout_s: float) -> None:
        """Return when it has loaded what it was to load, or has ended: then its task will say why.

        Raises:
            WorkerError: It takes longer than this.
        """
        if not self._lines.wait_for_signal(timeout_s):
            _answer(_late(timeout_s), self._out_dir)

    def run(
        self,
        task: str,
        arguments: Any,
        *,
        timeout_s: float,
        on_event: Callable[[Event], None] | None = None,
        what: str = _WHAT,
        option: str = progress.WORKER_TIMEOUT,
    ) -> dict[str, Any]:
        """Run the task and return its answer; the process is over then. Arguments and errors as for `run_task`."""
        with _step(what, progress.Limit(timeout_s, option)) as step:
            try:
                _send(self._process, {"task": task, "arguments": to_json(arguments)})
                final = self._follow(timeout_s, shown(step, on_event))
            finally:
                self._end()  # at once: what it still does would disturb the one that measures next
        return _answer(final, self._out_dir)

    def _follow(self, timeout_s: float, listen: Callable[[Event], None]) -> dict[str, Any]:
        """Pass events on, and return the final event or what can be said without one."""
        for line in self._lines.until(timeout_s):
            if line is None:
                return _late(timeout_s)
            try:
                event = json.loads(line)
                name = event["event"]
            except (ValueError, TypeError, KeyError):
                return {"status": "protocol", "message": f"the worker sent {line[:200]!r} instead of an event"}
            if name == "answer":
                return dict(event)
            text = event.get("text") or event.get("phase", "")
            listen(Event(name, text, event.get("done", 0.0), event.get("total", 0.0)))
            if event.get("waits"):
                _send(self._process, {})
        try:
            status = self._process.wait(timeout=children.END_S)
        except subprocess.TimeoutExpired:
            return {"status": "timeout", "message": "the worker closed its output, did not end and was killed"}
        return _ended_without_answer(status)


@contextlib.contextmanager
def _opened(
    python: Path | None, env: Mapping[str, str], out_dir: Path, libraries: Sequence[str]
) -> Iterator[children.Process]:
    command = [str(python or sys.executable), str(Path(worker.__file__).resolve())]
    with contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(
                children.opened(
                    command,
                    env=patient({**os.environ, **env}),
                    stderr=out_dir / "stderr.txt",
                    libraries=() if python else libraries,
                )
            )
        except OSError as error:
            raise errors.WorkerError(
                f"the interpreter {command[0]} cannot be started ({error.strerror}). "
                f"Check --sdperf-ab, or the 'python' of the profile in [tool.sdperf.engines].",
                reason="refused",
            ) from error
        yield process


def _step(what: str, limit: progress.Limit | None) -> contextlib.AbstractContextManager[progress.Step]:
    """Return the step that a worker is: it says what the one does that it is part of, until it says more."""
    outer = progress.doing()
    return progress.step(outer.what if outer else what, like=outer.like if outer else "", limit=limit)


def _job(out_dir: Path, registrars: Sequence[Registrar], cache_dir: Path | None) -> dict[str, Any]:
    """Return what a worker is told before its task."""
    return {
        "out_dir": str(out_dir),
        "cache_dir": str(cache_dir or ""),
        "registrars": [{"module": owner.module, "root": str(owner.root)} for owner in registrars],
    }


def _send(process: children.Process, message: Mapping[str, Any]) -> None:
    """Write one line; a worker that has ended cannot read it, and its end is found where its answer is read."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()


def _late(timeout_s: float) -> dict[str, Any]:
    return {"status": "timeout", "message": f"the worker gave no answer within {timeout_s:g} s and was ended"}


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
    tail = children.last_words(out_dir / "stderr.txt")
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


@contextlib.contextmanager
def environment(env: Mapping[str, str]) -> Iterator[None]:
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
