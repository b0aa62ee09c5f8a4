"""pytest, forked from a process that has imported it and the plugin: most of what a small run takes.

A run is a process of its own all the same, with the environment and the folder of the test. Where a variable that
libraries read while they are imported differs from that of the first run, it is started the long way.
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
import time
from pathlib import Path

import pytest

from pytest_sdperf.builds.processes import fork_server

HERE = Path(__file__).parent
TIMEOUT_S = 280.0
_ARGUMENTS = "PYTEST_ARGUMENTS"


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Type `pytest ...` in the folder of a test, as `pytester.runpytest_subprocess` does."""
    words = [f"--basetemp={pytester.path}/runpytest", *arguments]
    begin_s = time.perf_counter()
    # pytest-xdist hands its workers the sys.path of the moment when it was imported.
    status = None if any(word.startswith("-n") for word in arguments) else _forked(pytester.path, words)
    if status is None:
        return pytester.runpytest_subprocess(*arguments, timeout=TIMEOUT_S)
    said = [(pytester.path / name).read_text(encoding="utf-8", errors="replace") for name in ("stdout", "stderr")]
    for text, stream in zip(said, (sys.stdout, sys.stderr), strict=True):
        print(text, file=stream)
    lines = [text.splitlines() for text in said]
    with contextlib.suppress(ValueError):
        status = pytest.ExitCode(status)
    return pytest.RunResult(status, *lines, time.perf_counter() - begin_s)


def _forked(folder: Path, words: list[str]) -> int | None:
    """Return the exit status of a run; None where it would not be what was asked for."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), _ARGUMENTS: json.dumps(words)}
    message = {
        "env": env,
        "cwd": str(folder),
        "libraries": ["preloaded_pytest"],
        "worker": str(HERE / "forked_main.py"),
    }
    with contextlib.ExitStack() as stack:
        told = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        told.settimeout(TIMEOUT_S)
        told.connect(_server())
        files = [stack.enter_context(open(os.devnull, "rb"))]  # noqa: PTH123 - no path of a file
        files += [stack.enter_context((folder / name).open("wb")) for name in ("stdout", "stderr")]
        content = json.dumps(message).encode() + b"\n"
        sent = socket.send_fds(told, [content], [file.fileno() for file in files])
        if sent < len(content):  # one that was answered at once is gone already
            told.sendall(content[sent:])
        answers = [json.loads(line) for line in stack.enter_context(told.makefile("rb"))]
    return None if "refused" in answers[0] else int(answers[1]["status"])


@functools.cache
def _server() -> str:
    """Return the path of the socket of the server of this process."""
    folder = Path(tempfile.mkdtemp(prefix="pytest-fork-", dir=Path("/tmp")))  # the path of a socket has to be short
    path = folder / "socket"
    process = subprocess.Popen(
        [sys.executable, fork_server.__file__, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    atexit.register(_end, process, folder)
    while not path.exists():
        assert process.poll() is None, "the fork server ended"
        time.sleep(0.005)
    return str(path)


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)
    (folder / "socket").unlink()
    folder.rmdir()
