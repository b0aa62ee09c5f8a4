"""Files that show a fault by themselves: run, and kept only if they do show it."""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.checks.agreement.locations import sentence
from pytest_sdperf.checks.locate.target import SearchTarget
from pytest_sdperf.core.machine.device_choice import worker_environment
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.located import Located, Reproduction
from pytest_sdperf.tasks._execution import ShowingFiles

SCRIPT = "reproduce.py"
SHOWN, GONE = 1, 0
_TIMEOUT_S = 300
_REAL = (
    "Files with the weights of the case show this fault, and these are not given away unasked: type "
    "-o sdperf_repro_weights=real."
)
_ELSEWHERE = {
    "onnx": "No files were kept: cut out of its graph, in a session of its own, the node gives the right thing. "
    "Whatever is wrong is made by the engine around it, or by its neighbours.",
    "module": "No files were kept: built from its class and called alone, the module gives the right thing. Whatever "
    "is wrong is made by what the engine does to it when it loads it, or around it.",
}
_NEEDS = {"onnx": "onnxruntime and numpy", "module": "torch, safetensors and the library of the module"}
_HOLDS = {
    "onnx": """- `subgraph.onnx`: the nodes that are wrong, cut out of their graph; its weights are {weights}
- `inputs.npz`: what they read; `expected.npz`: what they should give""",
    "module": """- `weights.safetensors`: what the module holds: {weights}
- `inputs.safetensors`: what it is called with; `expected.safetensors`: what it should give""",
}


def seeded(case: Case) -> bool:
    """Whether a seed gives the weights of a case: then they are nobody's, and taken as they are."""
    return case.weights.startswith("random-")


def keep(
    question: SearchTarget, located: Located, files: Sequence[ShowingFiles], *, folder: Path, real_weights: bool
) -> Located:
    """Run the files that may show a fault, keep the first that do, and say so.

    Args:
        question: What was looked into.
        located: What was found.
        files: Folders to try, in this order.
        folder: Where those that show it are put, in a folder of the case's own.
        real_weights: Whether the weights of the case may be among them.
    """
    free = real_weights or seeded(question.runner.case)
    random, real = ([one for one in files if one.weights == kind] for kind in ("random", "real"))
    held_back = False
    for one in [*real, *random] if real_weights else [*random, *real] if free else random:
        shown, output = _run(Path(one.folder), question)
        if shown == SHOWN:
            kind = "seeded" if one.weights == "real" and not real_weights else one.weights
            text = _about(question, located, kind, output)
            made = _kept(question, Path(one.folder), folder, kind, text=text)
            return dataclasses.replace(located, reproduction=made)
    if not free:
        held_back = any(_run(Path(one.folder), question)[0] == SHOWN for one in real)
    told = _REAL if held_back else _ELSEWHERE[question.runner.engine.consumes] if files else ""
    return located.saying(told)


def _run(folder: Path, question: SearchTarget) -> tuple[int, str]:
    """Run the program of some files as their reader would, in the interpreter of the engine."""
    request = question.runner.request
    environment = {**os.environ, **request.env, **worker_environment(question.runner.context.device)}
    environment.pop("PYTHONPATH", None)  # it needs onnxruntime and numpy, and nothing of this project
    try:
        done = subprocess.run(  # noqa: S603 - a program that was just written
            [str(request.python or sys.executable), SCRIPT],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    # An exception ends a program with 1 too, but says nothing on its standard output.
    return (done.returncode if done.stdout.strip() else -1), done.stdout.strip()


def _kept(question: SearchTarget, source: Path, folder: Path, weights: str, *, text: str) -> Reproduction:
    """Put the files where they stay, in the place of those of an earlier run, with a text beside them."""
    case, python = question.runner.case, question.runner.request.python or sys.executable
    name = f"{case.model}-{case.component}-{case.optimization}-{case.engine}-{content_key({'case': case.key})[:8]}"
    target = folder.absolute() / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    (target / "README.md").write_text(text, encoding="utf-8")
    command = f"{shlex.quote(str(python))} {shlex.quote(str(target / SCRIPT))}"
    return Reproduction(str(target), command, weights)


def _about(question: SearchTarget, located: Located, weights: str, output: str) -> str:
    """Return the text beside the files: what they show, of what, and with which versions."""
    case, consumes = question.runner.case, question.runner.engine.consumes
    held = {
        "random": "random numbers with the mean and deviation of the real ones",
        "seeded": "those of the model, which a seed gives",
        "real": "those of the case",
    }
    what = (
        (located.location.op.removeprefix("::") or located.location.path)
        if located.location
        else f"The {located.component}"
    )
    return f"""# {what} gives something else than it should

{sentence(dataclasses.replace(located, told="" if located.location else located.told, reproduction=None))}

    python {SCRIPT}

prints `{output}`, and exits with 1 while the fault shows and with 0 when it is gone. It needs {_NEEDS[consumes]}.

{_HOLDS[consumes].format(weights=held[weights])}
- case: {case.key}
- made by pytest_sdperf under Python {platform.python_version()} on {platform.system()} {platform.machine()}
"""
