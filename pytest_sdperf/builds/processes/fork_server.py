"""The process that loads libraries once and forks the processes that would each load them again.

A script of the standard library alone: `forking.py` starts it as `python .../fork_server.py SOCKET` and speaks to it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import runpy
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Read by libraries when they are called, or by nothing that a task imports. Torch's compiler sets its own in whatever
# process imports it; that of a test is one.
_LATE = re.compile(
    r"PYTEST_.*|SDPERF_.*|TOX_.*|XDG_.*|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|(HIP|ROCR)_VISIBLE_DEVICES|HOME|"
    r"USERPROFILE|PWD|OLDPWD|SHLVL|_|TERM|PY_COLORS|COLUMNS|LINES|PYTHONPATH|(HF_HUB|TRANSFORMERS)_OFFLINE|CI|GITHUB_.*|"
    r"TORCHINDUCTOR_CACHE_DIR|OMP_NUM_THREADS"
)
# Read by torch when it is imported; a process that is forked says it again.
_THREADS = "OMP_NUM_THREADS"


def serve(path: str) -> None:
    """Fork a process for each connection, until the process that started this one closes its stdin.

    A connection brings one JSON line and three descriptors: stdin, stdout and stderr of the process that is wanted. It
    gets a line with that process's id, and one with its exit status when it has ended; or one that says why a process
    that is forked here would not be the one that is wanted.

    Args:
        path: Where the socket is to be.
    """
    # Each process is waited for by a child of this one; nobody waits for that child.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    begun = dict(os.environ)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(16)
        while True:
            ready, _, _ = select.select([listener.fileno(), 0], [], [])
            if 0 in ready:  # nobody ever writes: it was closed
                return
            connection, _ = listener.accept()
            # Of one who is gone, or of another version; others still need this server.
            with connection, contextlib.suppress(OSError, ValueError, KeyError):
                content, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
                try:
                    while not content.endswith(b"\n") and (more := connection.recv(1 << 16)):
                        content += more
                    _fork(json.loads(content), streams, connection, begun)
                finally:
                    for stream in streams:
                        os.close(stream)


def _fork(
    asked: Mapping[str, Any], streams: Sequence[int], connection: socket.socket, begun: Mapping[str, str]
) -> None:
    """Fork the process that a connection asked for; this function returns in the server alone."""
    why = _another_variable(asked["env"], begun)
    if not why:
        for name in asked["libraries"]:
            with contextlib.suppress(Exception):  # what cannot be imported fails in the task, which says so
                importlib.import_module(name)
        why = _shadowed(asked["env"])
    if why:
        connection.sendall(json.dumps({"refused": why}).encode() + b"\n")
        return
    gc.freeze()
    if os.fork():
        return
    # A child that waits for the process and tells how it ended: the server goes on at once.
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        worker = os.fork()
        if worker == 0:
            _become(asked, streams, connection)
        for stream in (*streams, 0):
            os.close(stream)
        _, status = os.waitpid(worker, 0)
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
    finally:
        os._exit(0)


def _become(asked: Mapping[str, Any], streams: Sequence[int], connection: socket.socket) -> None:
    """Be the process that was asked for, to its end."""
    status = 1
    try:
        os.setsid()
        connection.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        threads = os.environ.get(_THREADS)
        os.environ.clear()
        os.environ.update(asked["env"])
        os.chdir(asked["cwd"])
        sys.path[:0] = [entry for entry in _python_path(asked["env"]) if entry not in sys.path]
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()  # each process draws its own, as if it had imported it
        if "torch" in sys.modules and threads != os.environ.get(_THREADS):
            _take_threads(sys.modules["torch"], os.environ.get(_THREADS, ""))
        runpy.run_path(asked["worker"], run_name="__main__")
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _take_threads(torch: Any, asked: str) -> None:
    """Let torch compute in as many threads as if it had been imported under another number of them."""
    torch.set_num_threads(max(1, int(asked)) if asked.isdigit() else len(os.sched_getaffinity(0)))


def _another_variable(env: Mapping[str, str], begun: Mapping[str, str]) -> str:
    """Say which variable libraries would read otherwise than they do here; empty if none."""
    names = {name for name in env.keys() | begun.keys() if env.get(name) != begun.get(name)}
    read = sorted(name for name in names if not _LATE.fullmatch(name))
    return f"another {read[0]}" if read else ""


def _shadowed(env: Mapping[str, str]) -> str:
    """Say which module that is loaded here a folder of `PYTHONPATH` has, too; empty if none."""
    loaded = {name.partition(".")[0] for name in tuple(sys.modules)}
    for folder in _python_path(env):
        if folder in sys.path:
            continue
        with contextlib.suppress(OSError):  # a folder that is not there hides nothing
            for entry in Path(folder).iterdir():
                if entry.name.partition(".")[0] in loaded:
                    return f"another {entry.name} in {folder}"
    return ""


def _python_path(env: Mapping[str, str]) -> list[str]:
    return [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]


if __name__ == "__main__":
    # The folder of this script holds modules that must not shadow anybody's own.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    gc.set_threshold(50_000, 20, 100)
    serve(sys.argv[1])
