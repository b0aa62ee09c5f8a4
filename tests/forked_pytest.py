"""pytest, forked from a process that has imported it and the plugin: most of what a small run takes.

A run is a process of its own all the same, with the environment and the folder of the test. Where a variable that
libraries read while they are imported differs from that of the first run, it is started the long way.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from pathlib import Path

import pytest

from pytest_sdperf.builds.processes import forking

HERE = Path(__file__).parent
TIMEOUT_S = 280.0
_ARGUMENTS = "PYTEST_ARGUMENTS"


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Type `pytest ...` in the folder of a test, as `pytester.runpytest_subprocess` does."""
    begin_s = time.perf_counter()
    # pytest-xdist hands its workers the sys.path of the moment when it was imported.
    xdist = any(word.startswith("-n") for word in arguments)
    status = None if xdist else _forked(pytester.path, [f"--basetemp={pytester.path}/runpytest", *arguments])
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
    """Return the exit status of a run in the folder, which is this one; None where it is to be started the long way."""
    server = _server()
    if server is None:
        return None
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), _ARGUMENTS: json.dumps(words)}
    with (
        Path(os.devnull).open("rb") as none,
        (folder / "stdout").open("wb") as out,
        (folder / "stderr").open("wb") as err,
    ):
        streams = [none.fileno(), out.fileno(), err.fileno()]
        process = forking.forked_by(server, HERE / "forked_main.py", env, ["preloaded_pytest"], streams)
        return process and process.wait(TIMEOUT_S)


@functools.cache
def _server() -> str | None:
    """Return the path of the socket of the server of this process."""
    return forking.start_server({**os.environ, "PYTHONPATH": str(HERE)})
