"""What a search is about: one component, and what it is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.redrawn import RedrawnBuilder, RedrawnGraphBuilder
from pytest_sdperf.checks.references import plain_torch
from pytest_sdperf.checks.references.derived import plain_runner

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(frozen=True)
class SearchTarget:
    """One component that may be wrong.

    Attributes:
        runner: The component alone.
        inputs: What it is given, by name.
        call: Which call of a request that was; empty where there is no request.
    """

    runner: CaseRunner
    inputs: Mapping[str, np.ndarray[Any, Any]]
    call: str = ""


def torch_outputs(target: SearchTarget, dtypes: Sequence[str], *, inside: bool = False) -> dict[str, Path]:
    """Return dtype -> npz file with what plain torch gives; if asked for, `inside.npz` is beside it."""
    found = plain_torch.run(plain_runner(target.runner), dtypes, target.inputs, inside=inside)
    return {name: Path(found[name]) for name in dtypes}


def torch_device(runner: CaseRunner) -> str:
    """Return the device on which definitions are computed."""
    return "cpu" if runner.context.device.kind == "cpu" else "cuda"


def redrawn_runner(runner: CaseRunner, *, modules: bool) -> CaseRunner:
    """Return what executes the same case with random numbers in place of weights.

    Args:
        runner: The case.
        modules: Whether those of the torch modules are drawn, and graphs are exported again; else those of the graphs.
    """
    bench, external = runner.context, runner.context.builder.external
    kind = RedrawnBuilder if modules else RedrawnGraphBuilder
    folder = external.folder if external else None
    builder = kind(bench.catalog, bench.settings, bench.cache, say=bench.say, folder=folder)
    return dataclasses.replace(runner, context=dataclasses.replace(bench, builder=builder))
