"""What an engine has inside a component, block by block, against plain torch: does it compute the graph everywhere?

At the outputs a wrong kernel may hide behind the noise of all that follows. So the component is executed once more,
with what its blocks read and give as further outputs, and each of them is computed again by torch from what the engine
itself has before it, with a limit of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.agreement.joint_words import first_beyond, named
from pytest_sdperf.checks.agreement.tensors import RELATIVE_L2, relative_l2
from pytest_sdperf.checks.locate.inside import inside
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.checks.references.stored import reference_keys
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.files.arrays import digest_of, load_arrays
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Build, to_json
from pytest_sdperf.core.values.outcomes import Agreement
from pytest_sdperf.fusing.graph_kinds import quantized
from pytest_sdperf.tasks._execution import Ran, RunCase
from pytest_sdperf.tasks.joints import CompareJoints, JointsCompared, Place
from pytest_sdperf.tasks.trace import Reveal

LEVEL = "joints"


class _HiddenError(Exception):
    """Nobody can look inside; says why."""


def with_joints(runner: CaseRunner, whole: Agreement) -> tuple[Agreement, ...]:
    """Return the agreement of a component, and that of its joints where somebody can look inside.

    Args:
        runner: The component alone.
        whole: Its agreement. One that is beyond its limit is looked into by a search instead.
    """
    if not whole.passed:
        return (whole,)
    try:
        return whole, agreement_of(_compared(runner, whole), whole, component=runner.case.component)
    except (_HiddenError, SdperfError) as error:
        failed = "looking inside failed: " if isinstance(error, SdperfError) else ""
        return (dataclasses.replace(whole, hidden=f"{failed}{str(error).splitlines()[0]}"),)


def agreement_of(compared: JointsCompared, whole: Agreement, *, component: str) -> Agreement:
    """Return the agreement of all joints: that of the first one beyond its limit, or of the one nearest to it."""
    joints = compared.joints
    chosen = first_beyond(joints) or max(joints, key=lambda one: one.error / one.limit)
    return Agreement(
        level=LEVEL,
        metric=RELATIVE_L2,
        error=chosen.error,
        reference_error=chosen.reference_error,
        limit=chosen.limit,
        dtype=whole.dtype,
        reference=whole.reference,
        culprit=named(chosen, component),
        joints=joints,
        blocks=compared.blocks,
        roundings=compared.roundings,
    )


def _compared(runner: CaseRunner, whole: Agreement) -> JointsCompared:
    if not by_torch(runner):
        raise _HiddenError("there is no torch module to compute it again with")
    build, plain = runner.build(runner.case.component), plain_runner(runner)
    if what := quantized(build.counts):
        raise _HiddenError(f"the graph is quantized ({what}), and what that costs is no fault of an engine")
    obtained, places = _inside(runner, build)
    seen = load_arrays(obtained[0])
    away = max(relative_l2(seen[name], array) for name, array in runner.outputs().items())
    if away > whole.limit:
        raise _HiddenError(
            f"with what is inside as outputs it computes something else, {away:.2e} away where rounding explains "
            f"{whole.limit:.2e}: that is another graph than the one that runs"
        )
    # Between float32 kernels a single sine or erf may be farther apart than all of a component is at its end, and
    # nothing hides there: its limit is a thousandth of what matters.
    least = whole.reference_error if runner.dtype == "float32" else 0.0
    asked = CompareJoints(plain.execution(), obtained, places, runner.dtype, least)
    compared = _once(plain, asked)
    if not compared.blocks:
        raise _HiddenError("its module has no lists of blocks")
    if not compared.joints:
        raise _HiddenError("nothing that its blocks read or give can be told from a mask")
    return compared


def _once(plain: CaseRunner, asked: CompareJoints) -> JointsCompared:
    """Return how joints compare, from the cache where an engine has had the very same inside before."""
    obtained = [digest_of(load_arrays(path)) for path in asked.obtained]
    parts = {"obtained": obtained, "places": to_json(asked.places), "dtype": asked.dtype, "least": asked.least}
    (key,) = reference_keys(plain, {LEVEL: parts}, code=("pytest_sdperf.tasks.joints",)).values()

    def make(_: Path) -> dict[str, Any]:
        found: dict[str, Any] = to_json(plain.task("compare", asked, JointsCompared, module="joints"))
        return found

    return convert(plain.context.cache.get_or_make(key, make).metadata, JointsCompared)


def _inside(runner: CaseRunner, build: Build) -> tuple[tuple[Path, ...], Mapping[str, Place]]:
    """Return files with what an engine gives and has inside, outputs first, and where these hold joints."""
    engine, case, builder = runner.engine, runner.case, runner.context.builder
    if engine.compiles:
        raise _HiddenError(f"what {case.engine} compiles as one cannot be looked into")
    if engine.consumes == "module":
        ran = runner.task("run", RunCase(runner.execution(), inside=True, blocks=True), Ran)
        if not ran.inside:
            raise _HiddenError(f"{case.engine} does not tell what its modules read and give")
        return (Path(ran.outputs), Path(ran.inside)), {}
    module = builder.module(case.model, case.component)
    places = builder.exact.places(case, case.component, module=module, build=build)
    sides = (runner.model.inputs, runner.model.outputs)
    known = {spec.name for side in sides for spec in side(case.component, case.workload)}
    names = sorted({place.value for place in places.values()} - known)
    if not names:
        raise _HiddenError("its graph holds nothing that a block reads or gives")
    return (inside(runner, None, build, Reveal(build.path, names=tuple(names))).obtained,), places
