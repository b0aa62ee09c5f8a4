"""Correct before fast: what an engine computes against torch in higher precision.

The tolerance is derived. Plain torch in the same floating type, against the same reference, is the yardstick; an
optimized build may be at most `FACTOR` times as far away. Every tensor is first checked finite.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf import graph_reference
from pytest_sdperf.building.cache import content_key
from pytest_sdperf.building.fingerprint import library_versions, source_hash
from pytest_sdperf.building.outputs import Compute, cached_outputs
from pytest_sdperf.components import component_floating
from pytest_sdperf.errors import BuildError, NoReferenceError, SdperfError, WorkerError
from pytest_sdperf.given_pipeline import GivenPipelineRunner
from pytest_sdperf.outcomes import Agreement
from pytest_sdperf.runner import CaseRunner
from pytest_sdperf.settings import EngineRequest

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

FACTOR = 2.0
# Half of a unit in the last place: nothing rounded to this type can be nearer to the reference on average, and a
# yardstick that happens to be luckier must not fail a build.
HALF_UNIT = {"float32": 2.0**-25, "float16": 2.0**-12, "bfloat16": 2.0**-9}
REFERENCE = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}


def agree(runner: CaseRunner) -> Agreement:
    """Execute a case once and compare its outputs with the reference.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch as the reference, could not run.
    """
    floating = floating_of(runner)
    level = "image" if runner.is_pipeline else "component"
    if not by_torch(runner):
        exact, rough = graph_reference.graph_reference(runner, floating)
        agreement = compare(runner.run(), exact, plain=rough, level=level, floating=floating)
        return dataclasses.replace(agreement, reference=graph_reference.REFERENCE, by=graph_reference.BY)
    try:
        wanted = references(runner, (REFERENCE[floating], floating))
    except NoReferenceError:
        raise
    except SdperfError as error:
        text = f"torch could not compute the {REFERENCE[floating]} reference: {error}"
        if isinstance(error, WorkerError):
            raise WorkerError(text, reason=error.reason, tail=error.tail) from error
        raise BuildError(text) from error
    return compare(
        runner.run(),
        wanted[REFERENCE[floating]],
        plain=wanted[floating],
        level=level,
        floating=floating,
    )


def by_torch(runner: CaseRunner) -> bool:
    """Whether torch computes what a case is compared with; else a float32 graph does."""
    return not runner.case.exporter or runner.workbench.settings.selection.has_module


def is_comparable(runner: CaseRunner) -> bool:
    """Whether there is anything that a case can be compared with."""
    return by_torch(runner) or runner.workbench.builder.reference is not None


def floating_of(runner: CaseRunner) -> str:
    """Return the floating type in which a case is compared: that of its component, or of its pipeline."""
    given = runner.workbench.builder.given
    if given is not None and runner.case.exporter:
        return runner.floating
    return (
        runner.floating
        if runner.is_pipeline
        else component_floating(runner.model, runner.case.component, runner.floating)
    )


def references(runner: CaseRunner, floatings: Sequence[str]) -> dict[str, Arrays]:
    """Return what torch computes for the same weights and inputs, by floating type; from the cache if it is there.

    What is not there yet is computed in one process, because most of its time is the import of torch and diffusers.
    """
    keys, compute = _computing(runner, floatings)
    return cached_outputs(runner.workbench.cache, keys, compute)


def missing_references(runner: CaseRunner, floatings: Sequence[str]) -> tuple[str, ...]:
    """Return the floating types in which torch has yet to compute a reference."""
    keys, _ = _computing(runner, floatings)
    return tuple(floating for floating, key in keys.items() if not runner.workbench.cache.has(key))


def _computing(runner: CaseRunner, floatings: Sequence[str]) -> tuple[Mapping[str, str], Compute]:
    """Return the keys of references by floating type, and what computes those that the cache lacks."""
    if isinstance(runner, GivenPipelineRunner):
        return runner.reference_keys(floatings), runner.compute_references
    plain, case = plain_runner(runner), runner.case

    def compute(missing: Sequence[str]) -> Mapping[str, Any]:
        runner.workbench.say(f"computing references of {case.model} {case.component}: {', '.join(missing)}")
        return plain.task("run", {**plain.arguments(), "floatings": list(missing)}, module="reference")

    return {floating: _reference_key(plain, floating) for floating in floatings}, compute


def plain_runner(runner: CaseRunner) -> CaseRunner:
    """Return what executes the same case with plain torch in float32."""
    case = dataclasses.replace(runner.case, engine="torch", engine_options=(), optimization="fp32")
    case = dataclasses.replace(case, fuser="", exporter="", opset=0, shapes="", fp32_ops="")
    return dataclasses.replace(runner, case=case, request=EngineRequest(label="torch", engine="torch"))


def _reference_key(plain: CaseRunner, floating: str) -> str:
    return reference_key(plain, "pytest_sdperf.tasks.reference", {"floating": floating})


def reference_key(plain: CaseRunner, task: str, more: Mapping[str, Any]) -> str:
    """Return the key of what plain torch computes for a case.

    Args:
        plain: What `plain_runner` returned.
        task: Dotted name of the task that computes it.
        more: What else decides the result.
    """
    parts = {
        "case": plain.case.key,
        "builds": {name: build.key for name, build in plain.builds().items()},
        **more,
        "device": plain.workbench.device.name,
        "code": source_hash(task, "pytest_sdperf.engines.torch_eager"),
        "versions": library_versions("torch", "diffusers", "transformers"),
    }
    return f"reference-{content_key(parts)}"


def compare(obtained: Arrays, reference: Arrays, *, plain: Arrays, level: str, floating: str) -> Agreement:
    """Compare outputs by name with the reference; the worst output decides.

    Args:
        obtained: What the engine computed.
        reference: torch in higher precision.
        plain: torch in the engine's floating type: the yardstick.
        level: `component` or `image`.
        floating: The engine's floating type.

    Returns:
        The agreement of the output with the largest share of its limit.
    """
    names = [name for name in reference if name not in ("unet_calls", "latents", "step_latents")]
    agreements = [
        _compare_one(name, obtained.get(name), reference[name], plain[name], level=level, floating=floating)
        for name in names
    ]
    return max(agreements, key=_share_of_limit)


def _share_of_limit(agreement: Agreement) -> float:
    share = agreement.error / agreement.limit
    return share if math.isfinite(share) and math.isfinite(agreement.limit) else float("inf")


def _compare_one(
    name: str,
    obtained: np.ndarray[Any, Any] | None,
    reference: np.ndarray[Any, Any],
    plain: np.ndarray[Any, Any],
    *,
    level: str,
    floating: str,
) -> Agreement:
    import numpy as np

    yardstick = max(relative_l2(plain, reference), HALF_UNIT[floating])
    limit = FACTOR * yardstick
    error, culprit, details = float("inf"), "", {}
    if obtained is None:
        culprit = f"output {name!r} is missing"
    elif obtained.shape != reference.shape:
        culprit = f"output {name!r} has shape {obtained.shape}, the reference {reference.shape}"
    elif not np.isfinite(obtained).all():
        bad = int(np.size(obtained) - np.isfinite(obtained).sum())
        culprit = f"output {name!r} holds {bad} of {np.size(obtained)} values that are not finite"
    else:
        error = relative_l2(obtained, reference)
        gap = np.abs(obtained.astype(np.float64) - reference.astype(np.float64))
        worst = np.unravel_index(int(gap.argmax()), gap.shape)
        culprit = f"{name}[{', '.join(str(int(index)) for index in worst)}]"
        details = {"max_abs": float(gap.max())}
        if level == "image":
            details["psnr_db"] = psnr_db(obtained, reference)
    return Agreement(
        level=level,
        metric="relative-l2",
        error=error,
        yardstick=yardstick,
        limit=limit,
        floating=floating,
        reference=REFERENCE[floating],
        culprit=culprit,
        details=details,
    )


def relative_l2(obtained: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> float:
    """Return |obtained - reference| / |reference| in the 2-norm; infinite against a reference of zeros."""
    import numpy as np

    wanted = reference.astype(np.float64)
    norm = float(np.linalg.norm(wanted))
    return float(np.linalg.norm(obtained.astype(np.float64) - wanted)) / norm if norm else float("inf")


def psnr_db(obtained: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> float:
    """Return the peak signal-to-noise ratio of images in [-1, 1] after clipping, in dB; infinite if equal."""
    import numpy as np

    gap = np.clip(obtained.astype(np.float64), -1, 1) - np.clip(reference.astype(np.float64), -1, 1)
    mean_square = float(np.mean(gap**2))
    return 10.0 * float(np.log10(4.0 / mean_square)) if mean_square else float("inf")


def sentence(agreement: Agreement) -> str:
    """Say in one sentence how far the obtained tensor is from the reference."""
    how = (
        f"relative L2 error {agreement.error:.2e} against {agreement.by} {agreement.reference}; plain {agreement.by} "
        f"{agreement.floating} has {agreement.yardstick:.2e}, so at most {agreement.limit:.2e} passes"
    )
    if not math.isfinite(agreement.limit):
        return (
            f"The {agreement.level} has no yardstick: plain {agreement.by} {agreement.floating} is not finite on these "
            f"weights and inputs, so nothing can be called right in this precision."
        )
    if agreement.error == float("inf"):
        return f"The {agreement.level} is not comparable: {agreement.culprit}."
    where = "" if agreement.passed else f"; the worst element is {agreement.culprit}"
    return f"The {agreement.level} has a {how}{where}."
