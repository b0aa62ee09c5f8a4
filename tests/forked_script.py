"""A script in a process of its own that is forked from one in which torch and diffusers are loaded.

Importing them takes most of what such a script takes.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_WORDS = "SDPERF_TEST_SCRIPT"


def run(
    words: Sequence[str | Path], *, libraries: Sequence[str] = (), timeout_s: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """Run what `python WORDS` runs, in this folder.

    Args:
        words: Path of the script, and its arguments.
        libraries: What it imports, beside torch, diffusers and transformers.
        timeout_s: It takes less than this, or the test fails.
    """
    from pytest_sdperf.builds.processes import forking

    command = [str(word) for word in words]
    env = forking.patient({**os.environ, _WORDS: json.dumps(command)})
    forking.share()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as none:
        streams = [none.fileno(), out.fileno(), err.fileno()]
        server = os.environ.get(forking.VARIABLE, "")
        process = forking.forked_by(server, Path(__file__), env, [*forking.MODULES, *libraries], streams)
        if process is None:
            command = [sys.executable, *command]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
        status = process.wait(timeout_s)
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(command, status, out.read().decode(), err.read().decode())


if __name__ == "__main__":
    sys.argv = json.loads(os.environ.pop(_WORDS))
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.stdout.flush()
        atexit._run_exitfuncs()  # a forked process ends without
