"""What watches the code of this process while it runs: coverage, debuggers and profilers take time and memory of it.

Runs in the worker, so it imports the standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# Python numbers its tools (sys.monitoring), from 0.
_TOOLS = 6


def instruments() -> list[str]:
    """Return what watches the code of this process, in words; nothing where there is nothing."""
    # A module that nobody has imported cannot be at work.
    malloc, threads = sys.modules.get("tracemalloc"), sys.modules.get("threading")
    hooks = {
        "sys.settrace": sys.gettrace(),
        "sys.setprofile": sys.getprofile(),
        # What a thread that begins later will have; Python 3.10 and later tell.
        "threading.settrace": threads.gettrace() if threads is not None else None,
        "threading.setprofile": threads.getprofile() if threads is not None else None,
    }
    found = [f"{name} ({_module(hook)})" for name, hook in hooks.items() if hook is not None]
    monitoring: Any = getattr(sys, "monitoring", None)  # of Python 3.12 and later
    names = (monitoring.get_tool(number) for number in range(_TOOLS)) if monitoring is not None else ()
    found += [f"sys.monitoring ({name})" for name in names if name]
    if malloc is not None and malloc.is_tracing():
        found.append("tracemalloc")
    if "coverage" in sys.modules:
        found += [name for name in sorted(os.environ) if name.startswith("COVERAGE_PROCESS_")]
    return found


def instruments_of_worker() -> list[str]:
    """Return `instruments` in a worker, and nothing in pytest's own process, which somebody debugs."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    ours = Path(__file__).resolve().parents[1] / "worker.py"
    return instruments() if script and Path(script).resolve() == ours else []


def _module(hook: object) -> str:
    """Return the package of a function or of an object that is called as one."""
    name = getattr(hook, "__module__", None) or type(hook).__module__
    return str(name).partition(".")[0]
