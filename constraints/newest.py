"""Run tests with the newest releases and say what broke, and which package did it. It never fails.

    .venv/bin/tox -e newest                        # every quick test, in another order and with other examples
    .venv/bin/tox -e newest -- tests/plugin        # some of them

Where tests fail, each package that differs from `cpu.txt` is put back to the version there, one at a time, and what
failed is run again: the package with which it passes is named.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pins import moved, pins

HERE = Path(__file__).parent
SEED = random.randrange(2**32)
LOOKING_S = 60.0  # as long as packages are put back, each of which takes as long as what failed


def differing() -> dict[str, tuple[str, str]]:
    """Return the installed and the pinned version of each package where they differ, those of pyproject.toml first."""
    pinned = pins(HERE / "cpu.txt")
    named = {canonicalize_name(Requirement(line).name) for line in metadata.requires("pytest-sdperf") or ()}
    newer = {name: (version, pinned[name]) for name, version in moved(pinned).items() if name in pinned}
    return {name: newer[name] for name in sorted(newer, key=lambda name: (name not in named, name))}


def failing(tests: list[str], *, instead: Path | None = None) -> list[str] | None:
    """Return the node ids of the tests that fail; None where pytest could not run.

    Args:
        tests: Files, folders or node ids.
        instead: Folder of packages that come before those of the environment.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", *tests, "-q", "-m", "not slow and not alone"]
        command += ["-n", os.environ.get("SDPERF_TEST_PROCESSES", "3"), "--dist=loadfile"]
        command += [f"--randomly-seed={SEED}"]
        command += ["--hypothesis-profile=free", f"--hypothesis-seed={SEED}"]
        command += [f"--junitxml={report}", "-o", "junit_family=xunit1", "-p", "no:cacheprovider"]
        env = {**os.environ, "PYTHONPATH": str(instead)} if instead else dict(os.environ)
        if subprocess.run(command, env=env, check=False).returncode not in {0, 1} or not report.exists():
            return None
        cases = ElementTree.parse(report).iter("testcase")
        broken = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        return [f"{case.get('file')}::{case.get('name')}" for case in broken]


def culprit(broken: list[str], newer: dict[str, tuple[str, str]]) -> str:
    """Return a sentence on the package with whose pinned version everything that failed passes."""
    end = time.monotonic() + LOOKING_S
    for name, (newest, pinned) in newer.items():
        if time.monotonic() > end:
            return f"which package did it was not found within {LOOKING_S:.0f} s"
        with tempfile.TemporaryDirectory() as folder:
            install = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", folder, f"{name}=={pinned}"]
            if subprocess.run(install, check=False).returncode == 0 and failing(broken, instead=Path(folder)) == []:
                return f"{name} {newest} did it: with {pinned} they pass"
    return "no single package did it: with none of them put back alone all of these tests pass"


def main() -> None:
    """Run, and tell."""
    newer = differing()
    print("newer than constraints/cpu.txt:", ", ".join(f"{name} {new} ({old})" for name, (new, old) in newer.items()))
    broken = failing(sys.argv[1:])
    if broken is None:
        print(f"newest: pytest could not run these tests (seed {SEED})")
    elif not broken:
        print(f"newest: nothing broke (seed {SEED})")
    else:
        print(f"newest: {len(broken)} tests broke (seed {SEED}):", *broken, sep="\n  ")
        print(f"newest: {culprit(broken, newer)}")


if __name__ == "__main__":
    main()
