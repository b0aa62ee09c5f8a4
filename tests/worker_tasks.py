"""Tasks that misbehave in every way a vendor library does; a worker imports this file by its path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pytest_sdperf.core.errors import BuildError


def pytest_sdperf_register(catalog):
    """Register nothing: the file is named as a registrar so that the worker finds it."""


def echo(arguments, context):
    print("a library prints to stdout")
    os.write(1, b"and so does its C code\n")
    with context.listener.phase("first_run"):
        context.say("half way")
    (context.out_dir / "made.txt").write_text("made", encoding="utf-8")
    return {"arguments": arguments, "python": sys.executable, "suite": "pytest" in sys.modules}


def warm_up(arguments, context):
    with context.listener.phase("first_run"):
        pass
    with context.listener.phase("warmup"):
        begun_s = time.monotonic()
    with context.listener.phase("timed"):
        return {"begun_s": begun_s}


def environment(arguments, context):
    import importlib.util

    return {
        "SEEN": os.environ.get("SEEN", ""),
        "msgspec": importlib.util.find_spec("msgspec") is not None,
        "version": __import__("pytest_sdperf").__version__,
    }


def refuse(arguments, context):
    raise BuildError("the component cannot be built; type something else")


def fail(arguments, context):
    raise ValueError("a bad value")


def host_memory(arguments, context):
    raise MemoryError("no room")


def device_memory(arguments, context):
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def device_memory_in_ort(arguments, context):
    raise RuntimeError(
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : bfc_arena.cc:359 Failed to allocate memory for requested buffer"
    )


def segfault(arguments, context):
    sys.stderr.write("last words\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def killed(arguments, context):
    os.kill(os.getpid(), signal.SIGKILL)


def vanish(arguments, context):
    os._exit(7)


def hang(arguments, context):
    context.say(f"child {os.getpid()}")
    time.sleep(600)


def nap(arguments, context):
    context.say(f"child {os.getpid()}")
    time.sleep(1)
    context.say("awake")
    return {}


def answer_with_child(arguments, context):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    context.say(str(child.pid))
    return {}


def hang_with_child(arguments, context):
    answer_with_child(arguments, context)
    time.sleep(600)


def babble(arguments, context):
    context.say("not an event")
    # A library that holds the original descriptor can still write into the channel.
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"garbage\n")
        except OSError:
            continue
    time.sleep(5)


def note(arguments, context):
    """Leave a trace that a later task of the same process finds."""
    sys.modules["worker_tasks"].noted = [*noted, arguments["n"]]
    context.say("noted")


noted: list[int] = []


def recall(arguments, context):
    return {"noted": noted, "n": arguments["n"], "spins": os.environ.get("GOMP_SPINCOUNT")}


def note_and_recall(arguments, context):
    note(arguments, context)
    return recall(arguments, context)


def loaded(arguments, context):
    return {name: name in sys.modules for name in ("json.tool", "msgspec", "pytest")}


def draw(arguments, context):
    import random

    import numpy as np

    return {"numpy": np.random.random(), "python": random.random()}  # noqa: NPY002 - those that all code shares


def threads_of_torch(arguments, context):
    loaded = "torch" in sys.modules
    import torch

    return {"threads": torch.get_num_threads(), "loaded": loaded}


def surroundings(arguments, context):
    import threading

    return {
        "folder": str(Path.cwd()),
        "seen": os.environ.get("SDPERF_SEEN"),
        "session": os.getsid(0) == os.getpid(),
        "threads": threading.active_count(),
    }
