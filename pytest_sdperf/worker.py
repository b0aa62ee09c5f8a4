"""The child process that runs one task, under any interpreter.

Run as a script: `python .../pytest_sdperf/worker.py`. Two JSON lines arrive on stdin: what the process needs to know
from its start, and later the task; events and the answer leave as JSON lines on the stdout that the process was
started with, while everything that libraries print goes to stderr. Between the two lines the process may load
libraries (`preload`) and then waits, so that several of them can start side by side and run one by one. An event that
says `waits` is answered by a line, too. The suite need not be installed here: the first line names the folders of the
packages that are needed, and an import hook finds just those, so that nothing else of the suite's environment leaks
in.

With the path of a socket as its argument the process is a fork server instead: it loads libraries once and forks the
processes that would each load them again. `builds/processes/forking.py` is its other side.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import io
import json
import os
import re
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

PROTOCOL = 3
READY = "ready"  # the event that ends a preload
# Before this phase begins, the suite ends what it reads from the device: from here on nothing may disturb a call.
QUIET = "warmup"


class FolderFinder(importlib.abc.MetaPathFinder):
    """Finds named top-level packages and modules at given places, and nothing else."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        self.places = dict(places)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return the spec of a top-level name that was given a place; sub-modules follow from it."""
        place = self.places.get(fullname)
        if place is None:
            return None
        if place.is_dir():
            return importlib.util.spec_from_file_location(
                fullname, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        return importlib.util.spec_from_file_location(fullname, place)


class Channel:
    """The line to the suite: JSON objects, one per line.

    Args:
        stream: Takes them.
        replies: Gives a line for each event that waits for one; None where nobody listens.
    """

    def __init__(self, stream: TextIO, replies: TextIO | None = None) -> None:
        self._stream, self._replies = stream, replies

    def send(self, event: str, **fields: Any) -> None:
        """Send one event."""
        self.write(json.dumps({"event": event, **fields}))

    def write(self, line: str) -> None:
        """Write one line."""
        self._stream.write(line + "\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """Send a line of progress."""
        self.send("say", text=text)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Announce the begin and the end of a phase; `QUIET` begins when the suite has replied, or is gone."""
        waits = name == QUIET and self._replies is not None
        self.send("begin", phase=name, waits=waits)
        if waits and self._replies is not None:
            self._replies.readline()
        yield
        self.send("end", phase=name)


def says_ready(line: bytes) -> bool:
    """Whether a line is the event that ends a preload."""
    return line.startswith(json.dumps({"event": READY}).removesuffix("}").encode())


def fill_catalog(registrars: Sequence[Mapping[str, str]]) -> Any:
    """Import each registering module again and let it register."""
    from pytest_sdperf.core.catalog import Catalog, Registrar

    catalog = Catalog()
    for entry in registrars:
        module = importlib.import_module(entry["module"])
        with catalog.owned_by(Registrar(entry["module"], Path(entry["root"]))):
            module.pytest_sdperf_register(catalog)
    return catalog


def answer_to(job: Mapping[str, Any], channel: Any) -> Any:
    """Run the task that a job names, and return its answer as JSON data."""
    from pytest_sdperf.tasks import TaskContext, perform

    catalog = fill_catalog(job["registrars"])
    module, _, function = job["task"].partition(":")
    task = getattr(importlib.import_module(module), function)
    context = TaskContext(Path(job["out_dir"]), catalog, channel, channel.say, Path(job["cache_dir"]))
    return perform(task, job["arguments"], context)


def run_job(job: Mapping[str, Any], channel: Any) -> dict[str, Any]:
    """Run the task that a job names, and return its answer, or why it has none, as fields of the final event."""
    from pytest_sdperf.core.errors import OutOfMemoryError, SdperfError, is_out_of_memory
    from pytest_sdperf.faults import planting

    try:
        return {"status": "ok", "value": planting.answered(job["arguments"], answer_to(job, channel), channel)}
    except OutOfMemoryError as error:
        return {"status": "oom", "message": str(error)}
    except SdperfError as error:
        return {"status": "refused", "kind": type(error).__name__, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - everything a vendor library may raise; the parent decides what it means
        traceback.print_exc()
        status = "oom" if is_out_of_memory(error) else "error"
        return {"status": status, "message": f"{type(error).__name__}: {error}".removesuffix(": ")[:2000]}


def main(arguments: Sequence[str]) -> int:
    """Run one task, or be a fork server. The exit status is 0 whenever an answer was sent."""
    # The folder of this script holds modules named `graph` or `stats`, which must not shadow anybody's own.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    # Libraries make hundreds of thousands of objects that stay: looking for garbage among them is a fifth of the time
    # that importing takes.
    gc.set_threshold(50_000, 20, 100)
    if arguments:
        serve(arguments[0])
        return 0
    return work(here)


def work(here: Path) -> int:
    """Get ready, read the task, run it, answer.

    Args:
        here: Folder of the package.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    channel = Channel(answers, sys.stdin)
    start = json.loads(sys.stdin.readline())
    if start.get("protocol") != PROTOCOL:
        channel.send("answer", status="protocol", message=f"this worker speaks protocol {PROTOCOL}", protocol=PROTOCOL)
        return 0
    sys.path.extend(entry for entry in start["sys_path"] if entry not in sys.path)
    places = {entry["module"].partition(".")[0]: Path(entry["root"]) for entry in start["registrars"]}
    places["pytest_sdperf"] = here
    sys.meta_path.insert(0, FolderFinder(places))
    if start["preload"]:
        gc.disable()
        # Nobody listens: what fails here fails again in the task, which says so.
        run_job({**start, **start["preload"]}, Channel(io.StringIO()))
        gc.enable()
        channel.send(READY)
    line = sys.stdin.readline()
    if line:  # without it nobody wants an answer any more
        channel.send("answer", protocol=PROTOCOL, **run_job({**start, **json.loads(line)}, channel))
    return 0


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
            with connection:
                content, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
                while content and not content.endswith(b"\n"):
                    content += connection.recv(1 << 16)
                if len(streams) == 3:  # a connection without is somebody who asks whether this server lives
                    _fork(json.loads(content), streams, connection, begun)
                for stream in streams:
                    os.close(stream)


def _fork(
    asked: Mapping[str, Any], streams: Sequence[int], connection: socket.socket, begun: Mapping[str, str]
) -> None:
    """Fork the process that a connection asked for; this function returns in the server alone."""
    for name in asked["libraries"]:
        with contextlib.suppress(Exception):  # what cannot be imported fails in the task, which says so
            importlib.import_module(name)
    why = _differs(asked["env"], begun)
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
        os.environ.clear()
        os.environ.update(asked["env"])
        os.chdir(asked["cwd"])
        sys.path[:0] = [entry for entry in _python_path(asked["env"]) if entry not in sys.path]
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()  # each process draws its own, as if it had imported it
        status = work(Path(__file__).resolve().parent)
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


# Read by libraries when they are called, or by nothing that a task imports.
_LATE = re.compile(
    r"PYTEST_.*|SDPERF_.*|XDG_.*|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|(HIP|ROCR)_VISIBLE_DEVICES|HOME|USERPROFILE|"
    r"PWD|OLDPWD|SHLVL|_|TERM|COLUMNS|LINES|PYTHONPATH|(HF_HUB|TRANSFORMERS)_OFFLINE|CI|GITHUB_.*"
)


def _differs(env: Mapping[str, str], begun: Mapping[str, str]) -> str:
    """Say what of an environment the libraries that are loaded here have read otherwise; empty if nothing."""
    names = {name for name in env.keys() | begun.keys() if env.get(name) != begun.get(name)}
    read = sorted(name for name in names if not _LATE.fullmatch(name))
    if read:
        return f"another {read[0]}"
    loaded = {name.partition(".")[0] for name in tuple(sys.modules)}
    for folder in _python_path(env):
        if folder in sys.path:
            continue
        shadowed = [entry for entry in _top_level(folder) if entry in loaded]
        if shadowed:
            return f"another {shadowed[0]} in {folder}"
    return ""


def _python_path(env: Mapping[str, str]) -> list[str]:
    return [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _top_level(folder: str) -> list[str]:
    """Return the names that can be imported from a folder."""
    with contextlib.suppress(OSError):
        return [entry.name.partition(".")[0] for entry in Path(folder).iterdir()]
    return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
