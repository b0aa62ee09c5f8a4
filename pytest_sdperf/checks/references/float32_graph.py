"""What external graphs are compared with where no torch module stands for them: a float32 export of the same pipeline.

The reference is that export in ONNX Runtime, every optimization off. The reference error is that of the same export in
the build's own dtype: converted to float16, nothing fused; for float32, with every optimization on, which
computes the same in another order. What that moves beyond the rounding of float32 does not count (`as_rounding`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_sdperf.builds.execution.calls import ReplayCall, by_call, call_requests
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.onnx_folder import ONNX_REFERENCE
from pytest_sdperf.checks.agreement.tensors import relative_l2
from pytest_sdperf.checks.references.derived import graph_runner
from pytest_sdperf.checks.references.stored import TORCH, Stored
from pytest_sdperf.core import progress
from pytest_sdperf.core.components import IMAGE, LATENTS
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.files.arrays import Array, Arrays, load_arrays
from pytest_sdperf.core.reference_error import MOST_ROUNDING
from pytest_sdperf.core.values import Build, to_json
from pytest_sdperf.tasks._execution import Ran, RunCase
from pytest_sdperf.tasks.replay import CallsMade, MakeCalls

BY = "onnxruntime"
REFERENCE = "float32"


def outputs(runner: CaseRunner, dtype: str, *, rounding: int = 0) -> tuple[Arrays, Arrays, str]:
    """Return the outputs of the reference and of the plain run; from the cache if they are there.

    Args:
        runner: A case of an external graph.
        dtype: In which it is compared: `float32` or `float16`.
        rounding: Number of a rounding of the initial latents of a request, in the plain run (`values.roundings`).

    Returns:
        Both, and what is to be said of the reference error where the limit is beyond it, as a sentence; mostly empty.

    Raises:
        NoReferenceError: There is no reference either.
        SdperfError: The reference could not be built or run.
    """
    check_reference(runner)
    exact, own = _outputs(runner, REFERENCE, {}, optimizations="off"), _own_dtypes(runner)
    if dtype != REFERENCE:
        return exact, _outputs(runner, dtype, own, optimizations="off", rounding=rounding), ""
    # The build is mostly run with the same optimizations: what is wrong with these must not excuse itself.
    rough = _outputs(runner, dtype, own, optimizations="all", rounding=rounding)
    return exact, *as_rounding(rough, exact, names=(LATENTS, IMAGE) if runner.is_pipeline else tuple(exact))


def check_reference(runner: CaseRunner) -> None:
    """Check that there is an export to compare an external graph with.

    Raises:
        NoReferenceError: There is none.
    """
    if runner.context.builder.reference is None:
        raise NoReferenceError(
            f"nothing to compare the {runner.case.component} with: --sdperf-onnx-dir holds graphs alone. Type "
            f"--sdperf-weights=FOLDER with the torch weights that they were exported from, or {ONNX_REFERENCE}=FOLDER "
            f"with a float32 export of them."
        )


def answers(
    runner: CaseRunner, dtype: str, calls: Sequence[ReplayCall], *, numbers: Sequence[int]
) -> tuple[Sequence[Arrays], list[Sequence[Arrays]]]:
    """Return what the reference answers to calls, and what the plain run does; from the cache if it is there.

    Args:
        runner: A case of an external graph.
        dtype: As for `outputs`.
        calls: What is asked, one after the other.
        numbers: Of the roundings of the initial latents in the plain run, which answers in each of them.

    Raises:
        NoReferenceError: There is no reference.
        SdperfError: It could not be built or run.
    """
    check_reference(runner)
    own = _own_dtypes(runner)

    def answer(dtype: str, own: Mapping[str, str], optimizations: str, rounding: int = 0) -> Sequence[Arrays]:
        found = _outputs(runner, dtype, own, optimizations=optimizations, rounding=rounding, calls=calls)
        return by_call(found, len(calls))

    exact = answer(REFERENCE, {}, "off")
    if dtype != REFERENCE:
        return exact, [answer(dtype, own, "off", number) for number in numbers]
    rough = [answer(dtype, own, "all", number) for number in numbers]
    return exact, [
        [as_rounding(one, other, names=tuple(other))[0] for one, other in zip(answered, exact, strict=True)]
        for answered in rough
    ]


def _own_dtypes(runner: CaseRunner) -> dict[str, str]:
    """Return the dtype of each component: one may be wider than the others, and as it is has its own."""
    return {name: runner.dtype_of(name) for name in runner.components}


def answers_to(runner: CaseRunner, dtype: str, inputs: Arrays) -> tuple[Arrays, Arrays]:
    """Return what the reference and the plain run of a component give for other inputs; computed now.

    Args:
        runner: A component of an external graph.
        dtype: As of `outputs`.
        inputs: By name.
    """

    def answer(own: str, optimizations: str) -> Arrays:
        plain = graph_runner(runner, optimizations=optimizations)
        builds = {name: build_of(runner, name, own) for name in runner.components}
        asked = RunCase(plain.execution(inputs, builds=builds))
        return load_arrays(Path(plain.task("run", asked, Ran).outputs))

    exact = answer(REFERENCE, "off")
    if dtype != REFERENCE:
        return exact, answer(dtype, "off")
    return exact, as_rounding(answer(dtype, "all"), exact, names=tuple(exact))[0]


def build_of(runner: CaseRunner, component: str, dtype: str) -> Build:
    """Return a component of the export in a dtype, nothing fused."""
    return runner.context.builder.unfused_reference(runner.case, component, dtype=dtype)


def as_rounding(rough: Arrays, exact: Arrays, *, names: Sequence[str]) -> tuple[Arrays, str]:
    """Return a float32 plain run with no larger errors than rounding can have, and what is to be said of it.

    Args:
        rough: Outputs of the float32 graph with every optimization on.
        exact: The same with every optimization off.
        names: Outputs that are compared; of the latents every step has an error of its own.
    """
    import numpy as np

    nearer, farthest = dict(rough), 0.0
    for name in names:
        steps = name == LATENTS
        if name not in rough or name not in exact or rough[name].shape != exact[name].shape:
            continue
        pairs = zip(rough[name], exact[name], strict=True) if steps else [(rough[name], exact[name])]
        found = [(one, other, relative_l2(one, other)) for one, other in pairs]
        far = [distance for _, _, distance in found if MOST_ROUNDING < distance < math.inf]
        if far:
            farthest = max(farthest, *far)
            moved = [_moved(one, other, distance) for one, other, distance in found]
            nearer[name] = np.stack(moved) if steps else moved[0]
    told = (
        f"{BY} itself moves the float32 reference by up to {farthest:.2e} when it optimizes its graph. That is no "
        f"rounding of float32: no more than {MOST_ROUNDING:.2e} of it counts."
    )
    return nearer, told if farthest else ""


def _moved(one: Array, other: Array, distance: float) -> Array:
    """Return an array as far from another one as rounding may take it, in the direction in which it is farther."""
    if not MOST_ROUNDING < distance < math.inf:
        return one
    moved: Array = other + (one.astype("float64") - other) * (MOST_ROUNDING / distance)
    return moved.astype(one.dtype)


def _outputs(
    runner: CaseRunner,
    dtype: str,
    own: Mapping[str, str],
    *,
    optimizations: str,
    rounding: int = 0,
    calls: Sequence[ReplayCall] = (),
) -> Arrays:
    """Return what the export puts out for the inputs of the case, or for those of calls (`NUMBER.OUTPUT`)."""
    plain = graph_runner(runner, optimizations=optimizations)
    builds = {name: build_of(runner, name, own.get(name, dtype)) for name in runner.components}

    def compute(names: Sequence[str]) -> dict[str, str]:
        case = plain.case
        told = plain.execution({} if calls else None, builds=builds).drawn_in(dtype, rounding)

        def computed() -> str:
            if not calls:
                return plain.task("run", RunCase(told), Ran).outputs
            made = plain.task("run", MakeCalls(told, call_requests(plain, calls)), CallsMade, module="replay")
            return made.outputs

        of = f"{case.model} {case.component}"
        with progress.step(f"computing the {dtype} reference of {of} from its graph", like=case.key):
            return {name: computed() for name in names}

    asked = {"calls": [to_json(call) for call in calls]} if calls else {}
    stored = Stored.of(
        plain,
        {dtype: {"dtype": dtype, "rounding": rounding, **asked}},
        compute,
        code=(
            f"pytest_sdperf.tasks.{'replay' if calls else 'reference'}",
            f"pytest_sdperf.engines.{plain.case.engine.replace('-', '_')}",
        ),
        libraries=("onnxruntime", *TORCH),
        builds=builds,
    )
    return stored.read()[dtype]
