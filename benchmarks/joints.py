"""What looking inside costs: the agreement of a model with and without its joints, in turns, in one run.

    python benchmarks/joints.py                                  # sd15-thin, ort-cpu and torch
    python benchmarks/joints.py --model=sdxl-thin --engine=ort-cuda --rounds=5

Files are built before anything is timed. `again` finds references and places of joints in the cache, `first` computes
them as the first run of a build does. Given is the shortest time of a whole run of pytest, and the ratio.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_sdperf.checks.agreement import check

HERE = Path(__file__).resolve()
OFF = "WITHOUT_JOINTS"


def pytest_configure() -> None:
    """Compare outputs alone, where this file is a plugin of a run that is timed."""
    if OFF in os.environ:
        check.with_joints = lambda _, whole: (whole,)


def main() -> None:
    """Print a line for each engine and state of the cache."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="sd15-thin")
    parser.add_argument("--component", default="unet")
    parser.add_argument("--engine", default="ort-cpu,torch")
    parser.add_argument("--optimization", default="fp16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, help="keep files here, and use those that are there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        cache = arguments.cache or Path(scratch)
        for engine in arguments.engine.split(","):
            asked = ["model", "component", "optimization"]
            options = [f"--sdperf-{name}={getattr(arguments, name)}" for name in asked]
            options += [f"--sdperf-engine={engine}", f"--sdperf-cache-dir={cache}"]
            seconds(options, joints=True)
            for state, kinds in (("again", []), ("first", ["reference-*", "joints-*"])):
                compare(f"{engine:12} {state}", options, cache, kinds, rounds=arguments.rounds)


def compare(what: str, options: list[str], cache: Path, forgotten: list[str], *, rounds: int) -> None:
    """Time both sides in turns, each without some entries of the cache, and print the shortest times."""
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for joints, times in taken.items():
            for entry in [entry for kind in forgotten for entry in (cache / "entries").glob(kind)]:
                shutil.rmtree(entry)
            times.append(seconds(options, joints=joints))
    before, after = min(taken[False]), min(taken[True])
    print(f"{what}: {before:.1f} s without, {after:.1f} s with joints: {after / before:.2f} times", flush=True)


def seconds(options: list[str], *, joints: bool) -> float:
    """Return how long a run of agreement takes."""
    root = HERE.parent.parent
    paths = os.pathsep.join([str(root), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths, **({} if joints else {OFF: "1"})}
    command = [sys.executable, "-m", "pytest", "-q", "-p", HERE.stem, str(root / "suites/test_agreement.py"), *options]
    start = time.perf_counter()
    subprocess.run(command, check=True, env=env, cwd=root, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
