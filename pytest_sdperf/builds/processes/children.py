"""Child processes that speak in lines: started in a group of their own, ended with everything that they started."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from pytest_sdperf.builds.processes.forking import ForkedProcess, forked
from pytest_sdperf.core import clock
from pytest_sdperf.core.errors import WorkerError

Process = subprocess.Popen[bytes] | ForkedProcess

TAIL_LINES = 12
# Of information, not of an error: arenas are asked to say when they grow.
_NOTICE = "[I:onnxruntime:"
END_S = 10.0
"""How long a process may take to end once it has to."""


@contextlib.contextmanager
def opened(
    command: Sequence[str], *, env: Mapping[str, str], stderr: Path, libraries: Sequence[str] = ()
) -> Iterator[Process]:
    """Start a process with pipes on stdin and stdout; leaving the context ends it and its children.

    One that cannot be ended is left behind, with the thread that reads what it says.

    Args:
        command: Program and arguments.
        env: Its whole environment.
        stderr: File that takes what it says.
        libraries: Where any are named, the command is a worker's and may be forked from a process that has these.

    Raises:
        OSError: It cannot be started.
        WorkerError: It cannot be ended.
    """
    with stderr.open("wb") as said:
        process: Process | None = forked(env, libraries, said) if libraries else None
        if process is None:
            process = subprocess.Popen(  # noqa: S603 - the interpreter is the user's own choice
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, env=env, start_new_session=True
            )
    try:
        yield process
    finally:
        ended = kill(process)
        # Closing what a thread still reads from would wait for that thread.
        for stream in (process.stdin, process.stdout if ended else None):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if not ended:
            raise WorkerError(
                f"process {process.pid} was killed and did not end within {END_S:g} s: the driver of a device holds "
                f"it, and it may still use that device",
                reason="stuck",
                tail=last_words(stderr),
            )


def last_words(stderr: Path) -> str:
    """Return the last lines that a process wrote but for notices of ONNX Runtime; empty if there are none."""
    try:
        lines = stderr.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join([line for line in lines if _NOTICE not in line][-TAIL_LINES:])


def kill(process: Process) -> bool:
    """End a process and its children, which must not disturb the next measurement; return whether it has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        elif isinstance(process, subprocess.Popen):
            _kill_tree(process)
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        return False
    return True


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
    psutil.wait_procs(children, timeout=END_S)


class Lines:
    """The lines that a stream delivers, with a time limit on waiting for them.

    A thread reads, because Windows cannot wait for a pipe with a time limit.
    """

    def __init__(self, stream: IO[bytes], *, is_signal: Callable[[bytes], bool]) -> None:
        """Begin to read.

        Args:
            stream: Read until its end.
            is_signal: Says of a line that it is no content but the signal that `wait_for_signal` waits for.
        """
        self._stream, self._is_signal = stream, is_signal
        self._arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._signalled = threading.Event()
        threading.Thread(target=self._read, daemon=True, name="sdperf-worker-reader").start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._stream:
                if self._is_signal(line):
                    self._signalled.set()
                else:
                    self._arrived.put(line)
        self._arrived.put(None)
        self._signalled.set()

    def wait_for_signal(self, timeout_s: float) -> bool:
        """Return True when the signal came or the stream ended, False when the time is over."""
        return self._signalled.wait(timeout_s)

    def until(self, timeout_s: float) -> Iterator[bytes | None]:
        """Yield complete lines as they come; None when the time is over."""
        deadline = clock.monotonic_s() + timeout_s
        while True:
            try:
                line = self._arrived.get(timeout=max(0.0, deadline - clock.monotonic_s()))
            except queue.Empty:
                yield None
                return
            if line is None:
                return
            yield line
