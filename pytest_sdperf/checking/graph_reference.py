"""What given graphs are compared with where no torch module stands for them: a float32 export of the same pipeline.

The reference is that export in ONNX Runtime, every optimization off. The yardstick is the error of the same export in
the build's own floating type: converted to float16, nothing fused; for float32, with every optimization on, which
computes the same in another order.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf import ladder
from pytest_sdperf.building.cache import content_key
from pytest_sdperf.building.fingerprint import library_versions, source_hash
from pytest_sdperf.errors import NoReferenceError
from pytest_sdperf.executing.runner import CaseRunner
from pytest_sdperf.files.arrays import load_arrays
from pytest_sdperf.options.onnx_folder import ONNX_REFERENCE
from pytest_sdperf.settings import EngineRequest
from pytest_sdperf.values import Build
from pytest_sdperf.values.roundings import OTHERS

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

BY = "onnxruntime"
REFERENCE = "float32"


def graph_reference(runner: CaseRunner, floating: str) -> tuple[Arrays, Arrays]:
    """Return the outputs of the reference and of the yardstick; from the cache if they are there.

    Args:
        runner: A case of a given graph.
        floating: In which it is compared: `float32` or `float16`.

    Raises:
        NoReferenceError: There is no reference either.
        SdperfError: The reference could not be built or run.
    """
    if runner.workbench.builder.reference is None:
        raise NoReferenceError(
            f"nothing to compare the {runner.case.component} with: --sdperf-onnx-dir holds graphs alone. Type "
            f"--sdperf-weights=FOLDER with the torch weights that they were exported from, or {ONNX_REFERENCE}=FOLDER "
            f"with a float32 export of them."
        )
    return _outputs(runner, "float32", {}, optimizations="off"), _yardstick(runner, floating)


def other_roundings(runner: CaseRunner, floating: str) -> list[Arrays]:
    """Return what the yardstick of a request computes when its initial latents are rounded otherwise."""
    return [_yardstick(runner, floating, rounding=number) for number in range(1, OTHERS + 1)]


def _yardstick(runner: CaseRunner, floating: str, *, rounding: int = 0) -> Arrays:
    given = runner.workbench.builder.given
    assert given is not None
    # A component may be wider than the others of its pipeline, and one that is taken as it is has its own type.
    own = {name: given.floating(runner.model, name, runner.case.optimization) for name in runner.components}
    optimizations = "all" if floating == "float32" else "off"
    return _outputs(runner, floating, own, optimizations=optimizations, rounding=rounding)


def _outputs(
    runner: CaseRunner, floating: str, own: Mapping[str, str], *, optimizations: str, rounding: int = 0
) -> Arrays:
    on_gpu = runner.workbench.device.kind == "cuda"
    engine = "ort-cuda" if on_gpu else "ort-cpu"
    options = {"graph_optimizations": optimizations}
    case = dataclasses.replace(
        runner.case,
        engine=engine,
        engine_options=tuple(options.items()),
        optimization=ladder.AS_IS,
        fuser="",
        weights="",
    )
    plain = dataclasses.replace(runner, case=case, request=EngineRequest(engine, engine, tuple(options.items())))
    builds = {name: _build(runner, name, own.get(name, floating)) for name in runner.components}
    parts = {
        "case": case.key,
        "builds": {name: build.key for name, build in builds.items()},
        "device": runner.workbench.device.name,
        "code": source_hash("pytest_sdperf.tasks.reference", f"pytest_sdperf.engines.{engine.replace('-', '_')}"),
        "versions": library_versions("onnxruntime", "torch"),
        "rounding": rounding,
    }

    def make(folder: Path) -> dict[str, Any]:
        runner.workbench.say(f"computing the {floating} reference of {case.model} {case.component} from its graph")
        arguments = plain.arguments(builds=builds)
        if runner.is_pipeline:
            arguments |= {"floating": floating, "rounding": rounding}
        shutil.move(plain.task("run", arguments)["outputs"], folder / "outputs.npz")
        return {}

    entry = runner.workbench.cache.get_or_make(f"reference-{content_key(parts)}", make)
    return load_arrays(entry.path / "outputs.npz")


def _build(runner: CaseRunner, component: str, floating: str) -> Build:
    reference = runner.workbench.builder.reference
    assert reference is not None
    return reference.unfused(runner.model, component, runner.case.workload, floating=floating)
