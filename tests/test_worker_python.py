"""What a worker loads must run under Python 3.10, so ruff has to judge these files by that version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FAULTS = ROOT / "pytest_sdperf" / "faults"
# What a worker imports at its start, and every task that it can be asked for.
PROGRAM = """
import importlib, pkgutil, sys
import pytest_sdperf.builtins
if "faults" in sys.argv:
    import pytest_sdperf.faults.builtins
for package in ("devices", "engines", "models", "fusing.optimizations", "tasks.request", "fusing.expected", "tasks"):
    folder = importlib.import_module(f"pytest_sdperf.{package}")
    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"pytest_sdperf.{package}.{module.name}")
files = (getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("pytest_sdperf"))
print(*sorted(filter(None, files)), sep="\\n")
"""


def judged_as_python_310() -> set[Path]:
    """Return the files that `per-file-target-version` in pyproject.toml matches."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: set[Path] = set()
    for pattern, version in settings["tool"]["ruff"]["per-file-target-version"].items():
        assert version == "py310"
        before, names, after = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern).groups()
        for name in names.split(","):
            files = set(ROOT.glob(f"{before}{name}{after}"))
            assert files, f"{pattern}: there is no {name}"
            found |= files
    return found


def loaded(*plugins: str) -> set[Path]:
    """Return the files of ours that a worker loads."""
    command = [sys.executable, "-c", PROGRAM, *plugins]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {Path(line) for line in answer.stdout.split()}


def test_ruff_judges_what_a_worker_loads_by_the_oldest_python_of_a_worker():
    files = loaded("faults")
    assert {ROOT / "pytest_sdperf" / "tasks" / "component.py", FAULTS / "known.py"} <= files
    assert sorted(files - judged_as_python_310()) == []


def test_a_worker_that_was_not_told_of_a_fault_loads_none():
    assert [file for file in loaded() if file.is_relative_to(FAULTS)] == []
