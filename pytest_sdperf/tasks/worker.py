"""The child process that runs one task, under any interpreter.

Run as a script: `python .../pytest_sdperf/tasks/worker.py`. Two JSON lines arrive on stdin: what the process needs to
know from its start, and later the task; events and the answer leave as JSON lines on the stdout that the process was
started with, while everything that libraries print goes to stderr. Between the two lines the process may load
libraries (`preload`) and then waits, so that several of them can start side by side and run one by one. An event that
says `waits` is answered by a line, too. The suite need not be installed here: the first line names the folders of the
packages that are needed, and an import hook finds just those, so that nothing else of the suite's environment leaks
in.
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

    def at(self, done: float, total: float, noun: str) -> None:
        """Send how far it is."""
        self.send("at", done=done, total=total, text=noun)

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

    try:
        return {"status": "ok", "value": answer_to(job, channel)}
    except OutOfMemoryError as error:
        return {"status": "oom", "message": str(error)}
    except SdperfError as error:
        return {"status": "refused", "kind": type(error).__name__, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - everything a vendor library may raise; the parent decides what it means
        traceback.print_exc()
        status = "oom" if is_out_of_memory(error) else "error"
        return {"status": status, "message": f"{type(error).__name__}: {error}".removesuffix(": ")[:2000]}


def main() -> int:
    """Get ready, read the task, run it, answer. The exit status is 0 whenever an answer was sent."""
    # The folder of this script holds modules named `compile` or `trace`, which must not shadow anybody's own.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    channel = Channel(answers, sys.stdin)
    start = json.loads(sys.stdin.readline())
    if start.get("protocol") != PROTOCOL:
        channel.send("answer", status="protocol", message=f"this worker speaks protocol {PROTOCOL}", protocol=PROTOCOL)
        return 0
    sys.path.extend(entry for entry in start["sys_path"] if entry not in sys.path)
    places = {entry["module"].partition(".")[0]: Path(entry["root"]) for entry in start["registrars"]}
    places["pytest_sdperf"] = here.parent
    sys.meta_path.insert(0, FolderFinder(places))
    # Libraries make hundreds of thousands of objects that stay: looking for garbage among them is a fifth of the time
    # that importing takes.
    gc.set_threshold(50_000, 20, 100)
    if start["preload"]:
        gc.disable()
        # Nobody listens: what fails here fails again in the task, which says so.
        run_job({**start, **start["preload"]}, Channel(io.StringIO()))
        gc.enable()
        channel.send(READY)
    from pytest_sdperf.core import progress

    progress.told_by(channel)
    line = sys.stdin.readline()
    if line:  # without it nobody wants an answer any more
        channel.send("answer", protocol=PROTOCOL, **run_job({**start, **json.loads(line)}, channel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
