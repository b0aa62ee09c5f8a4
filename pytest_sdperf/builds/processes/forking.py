"""Worker processes that are forked from one that has loaded the libraries already.

Importing torch and diffusers takes longer than most tasks. A fork server (Python's word: `multiprocessing` has one)
imports them once; what it forks is a process of its own as any other. Only what is not measured is forked: processes
that are measured begin from nothing, so that they differ as those of a user do.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pytest_sdperf.builds.processes import fork_server
from pytest_sdperf.core import clock
from pytest_sdperf.tasks import worker

# Holds the path of the socket, so that the processes of pytest-xdist and the sessions of a test share one server.
VARIABLE = "SDPERF_FORK_SERVER"
# Nothing is fetched behind the user's back; a hub id named with --weights is fetched before, by find_source.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
# How often a waiting thread of GNU's OpenMP, which torch has on Linux, looks again before it gives up its core. The
# default of 300,000 takes longer than most operators: where another program has the core of the thread that is waited
# for, a call takes ten times as long. 10,000 loses nothing on an idle machine.
SPINS = ("GOMP_SPINCOUNT", "10000")
_START_S = 10.0
# What a machine has that has a GPU: the devices of NVIDIA's driver, of AMD's and of WSL2.
GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")

# What a task imports, named so that it is imported once; more than it needs costs a run nothing that others need.
GRAPHS = ("numpy", "onnx", "onnx_ir")
MODULES = (
    *GRAPHS,
    "torch",
    "diffusers.models.autoencoders.autoencoder_kl",
    "diffusers.models.unets.unet_2d_condition",
    "transformers.models.clip.modeling_clip",
)
EXPORTER = (*MODULES, "torch._dynamo", "torch.export", "onnxscript.function_libs.torch_lib.ops")


class ForkedProcess:
    """A process that a fork server forked, with what this project uses of `subprocess.Popen`."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self._told = told
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status when it has ended; negative is the number of a signal.

        Raises:
            subprocess.TimeoutExpired: It takes longer than `timeout` seconds.
        """
        if self._status is None:
            self._told.settimeout(timeout)
            try:
                line = _line(self._told)
            except TimeoutError:
                raise subprocess.TimeoutExpired(["forked"], timeout or 0.0) from None
            # Without a line the whole server was ended, and what it forked is as good as killed.
            self._status = int(json.loads(line)["status"]) if line else -9
            self._told.close()
        return self._status


def forked(env: Mapping[str, str], libraries: Sequence[str], stderr: IO[bytes]) -> ForkedProcess | None:
    """Return a new worker process that has loaded libraries; None where it has to be started the long way.

    Args:
        env: Its whole environment.
        libraries: Modules that its task will import.
        stderr: Takes what it says.
    """
    server = _server()
    if server is None:
        return None
    with contextlib.ExitStack() as ours:
        reads, to_stdin = os.pipe()
        from_stdout, writes = os.pipe()
        stdin = ours.enter_context(os.fdopen(to_stdin, "wb", buffering=0))
        stdout = ours.enter_context(os.fdopen(from_stdout, "rb"))
        try:
            process = forked_by(server, Path(worker.__file__), env, libraries, [reads, writes, stderr.fileno()])
        finally:
            os.close(reads)
            os.close(writes)
        if process is not None:
            ours.pop_all()
            process.stdin, process.stdout = stdin, stdout
        return process


def forked_by(
    server: str, script: Path, env: Mapping[str, str], libraries: Sequence[str], streams: Sequence[int]
) -> ForkedProcess | None:
    """Return a new process that runs a script in this folder; None where it would not be the one that is wanted.

    Args:
        server: Path of the socket of a server.
        script: What runs.
        env: Its whole environment.
        libraries: Modules that are loaded before.
        streams: Descriptors of its stdin, stdout and stderr.
    """
    told = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.ExitStack() as ours:
        ours.callback(told.close)
        message = {"env": dict(env), "cwd": str(Path.cwd()), "libraries": list(libraries)}
        message["worker"] = str(script.resolve())
        try:
            told.connect(server)
            content = json.dumps(message).encode() + b"\n"
            sent = socket.send_fds(told, [content], streams)
            if sent < len(content):  # one that was answered at once is gone already
                told.sendall(content[sent:])
            answer = json.loads(_line(told) or b"{}")
        except OSError:
            return None
        if "pid" not in answer:
            return None
        ours.pop_all()
    return ForkedProcess(answer["pid"], told)


def share() -> None:
    """Start a server, unless there is one, and let processes that are started from here find it."""
    _server()


def _server() -> str | None:
    """Return the path of the socket of a server that lives; None where there can be none."""
    # Libraries of other systems do not survive a fork, nor does a GPU that torch has looked at while it was imported.
    if sys.platform != "linux" or any(Path(name).exists() for name in GPUS):
        return None
    path = os.environ.get(VARIABLE)
    if path and Path(path).exists():
        return path
    return _started()


@functools.cache
def _started() -> str | None:
    path = start_server(patient({**os.environ, **OFFLINE}))
    if path is not None:
        os.environ[VARIABLE] = path
    return path


def start_server(env: Mapping[str, str]) -> str | None:
    """Start a server that ends with this process; return the path of its socket, None where it does not start.

    Args:
        env: Its whole environment, by which it tells what it may fork.
    """
    folder = tempfile.TemporaryDirectory(prefix="sdperf-fork-")
    path = str(Path(folder.name, "socket"))
    process = subprocess.Popen(  # noqa: S603 - the interpreter of this process
        [sys.executable, str(Path(fork_server.__file__).resolve()), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(env),
    )
    atexit.register(_end, process, folder)
    give_up_s = clock.monotonic_s() + _START_S
    while not Path(path).exists():
        if process.poll() is not None or clock.monotonic_s() > give_up_s:
            return None
        clock.sleep_s(0.005)
    return path


def patient(env: dict[str, str]) -> dict[str, str]:
    """Limit how long threads spin, unless the user or a profile says something about it."""
    return env if env.keys() & {SPINS[0], "OMP_WAIT_POLICY"} else {**env, SPINS[0]: SPINS[1]}


def _end(process: subprocess.Popen[bytes], folder: Any) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_START_S)
    folder.cleanup()


def _line(stream: socket.socket) -> bytes:
    """Read up to the end of a line, or of the stream."""
    content = b""
    while not content.endswith(b"\n"):
        more = stream.recv(1)
        if not more:
            return b""
        content += more
    return content
