"""The agreement table: how far each build is from its reference, and how much of its limit that takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_sdperf.checks.agreement.joint_words import counted
from pytest_sdperf.checks.agreement.tensors import RELATIVE_L2
from pytest_sdperf.checks.images.similarity import FLIP, SSIM, bound, spelled
from pytest_sdperf.checks.precision.drift import DRIFT, ROUNDING
from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.interpreter import install_command
from pytest_sdperf.core.units import share
from pytest_sdperf.core.values.check import CheckRow
from pytest_sdperf.core.values.outcomes import Agreement, Outcome

COLUMNS = ("error", "limit", "of limit")
_PACKAGES = ("flip-evaluator", "pillow", "scikit-image")


def rows(agreements: Sequence[Agreement]) -> list[CheckRow]:
    """Return one row per agreement, the metrics of an image below its own; rows that fail say where."""
    metrics = [one for one in agreements if one.metric != RELATIVE_L2]
    found = []
    for one in (one for one in agreements if one.metric == RELATIVE_L2):
        below = metrics if one.level == IMAGE else []
        passed = one.passed and all(metric.passed for metric in below)
        details = "; ".join(filter(None, [_details(one), _metrics(below)]))
        outcome = Outcome.PASSED if passed else Outcome.FAILED
        found.append(CheckRow(_numbers(one), _word(one), details, outcome))
    return found


def legends(agreements: Sequence[Agreement]) -> list[str]:
    """Return what stands below the table: what an error is, what limits it, and what nobody looked at."""
    return [*_legend(agreements), *_drift_legend(agreements), *_roundings(agreements), *_not_looked_at(agreements)]


def _drift_legend(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say what a drift is, and what limits it."""
    limits = {
        ROUNDING: "of torch itself, what rounding explains (the error of float32 times the ratio of the units)",
        "torch": "of an engine, 2 x that of plain torch",
    }
    found = {one.by for one in agreements if one.level == DRIFT}
    told = [text for by, text in limits.items() if by in found]
    if told:
        yield f"drift: relative-l2 to float32 from the same latents, after each step; limit: {'; '.join(told)}"


def _legend(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say what an error is, what its limit is and what each dtype was compared with."""
    agreements = [one for one in agreements if one.metric == RELATIVE_L2 and one.level != DRIFT]
    if not agreements:
        return
    metrics = ", ".join(sorted({agreement.metric for agreement in agreements}))
    references = ", ".join(sorted({f"{a.dtype} against {a.reference}" for a in agreements}))
    factors = sorted(
        {f"{a.limit / a.reference_error:.3g} x" for a in agreements if a.reference_error > 0 and math.isfinite(a.limit)}
    )
    by = " or ".join(sorted({agreement.by for agreement in agreements}))
    limit = f"; limit: {', '.join(factors)} the error of plain {by} in the same type" if factors else ""
    steps = "; of steps: after each, shown is the nearest to its limit" if any(one.steps for one in agreements) else ""
    joints = (
        "; of joints: what each block reads and gives, computed again from what the engine itself has before it, shown "
        "is the nearest to its limit"
        if any(one.joints for one in agreements)
        else ""
    )
    yield f"error: {metrics} to the reference ({references}){limit}{steps}{joints}"


def _roundings(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say that some limits are those of several roundings."""
    several = max((one.roundings for one in agreements if not one.joints), default=1)
    if several > 1:
        yield (
            f"of {several} roundings: beyond the limit of one, so the initial latents of plain torch were rounded in "
            f"{several - 1} other ways; the largest of its errors counts"
        )


def _not_looked_at(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say which metrics of images were not computed, because their packages are not installed."""
    metrics = {one.metric for one in agreements if one.level == IMAGE}
    lacking = [name.upper() for name in (SSIM, FLIP) if name not in metrics]
    if "psnr" in metrics and lacking:
        command = install_command("pictures", *_PACKAGES)
        yield f"not looked at: {' and '.join(lacking)}; type: {command}"


def _metrics(metrics: Sequence[Agreement]) -> str:
    """Return the metrics of an image in a line; empty for none."""
    return ", ".join(f"{spelled(one.metric, one.error)} ({bound(one.metric, one.limit)})" for one in metrics)


def _numbers(agreement: Agreement) -> tuple[str, ...]:
    finite = math.isfinite(agreement.error) and agreement.limit > 0
    used = share(agreement.error / agreement.limit) if finite else "-"
    return f"{agreement.error:.2e}", f"{agreement.limit:.2e}", used


def _details(agreement: Agreement) -> str:
    if not agreement.passed:
        return _failing(agreement)
    hidden = f"nothing inside was compared: {agreement.hidden}" if agreement.hidden else ""
    parts = (_step(agreement), _joint(agreement), _images(agreement), _own(agreement), hidden)
    return "; ".join(filter(None, parts))


def _word(agreement: Agreement) -> str:
    words = {"component": "", DRIFT: f"{DRIFT} to {agreement.dtype}"}
    word = words.get(agreement.level, agreement.level)
    several = agreement.roundings > 1 and not agreement.joints
    return f"{word} of {agreement.roundings} roundings".lstrip() if several else word


def _step(agreement: Agreement) -> str:
    """Say which step is shown, and how far the last one is; empty for other levels and for a drift."""
    if not agreement.steps or not agreement.culprit:
        return ""
    last = agreement.steps[-1]
    if agreement.culprit == f"step {len(agreement.steps)} of {len(agreement.steps)}":
        return f"at {agreement.culprit}"
    of_limit = f", {share(last.error / last.limit)} of its limit" if last.limit > 0 else ""
    return f"at {agreement.culprit}; the last: {last.error:.2e}{of_limit}"


def _joint(agreement: Agreement) -> str:
    """Say how many blocks were compared, and which joint is shown; empty for other levels."""
    return f"{counted(agreement)}, nearest: {agreement.culprit}" if agreement.joints else ""


def _own(agreement: Agreement) -> str:
    """Say that a limit was made of the very numbers that it limits: such a row cannot fail."""
    own = agreement.error == agreement.reference_error > 0 and agreement.level != DRIFT
    return f"this is what limits others: plain {agreement.by} under its own name" if own else ""


def _images(agreement: Agreement) -> str:
    """Say how far the images of a drift are apart; empty for other levels."""
    if agreement.level != DRIFT or not agreement.details:
        return ""
    return f"its image: {', '.join(spelled(metric, error) for metric, error in agreement.details.items())}"


def _failing(agreement: Agreement) -> str:
    """Say where an agreement fails, and what was recognised."""
    details = "".join(f"; {name} {value:.4g}" for name, value in sorted(agreement.details.items()))
    if agreement.joints:
        return f"{counted(agreement)}; begins at {agreement.culprit}"
    where = "begins at " if agreement.steps else "" if agreement.error == math.inf else "worst at "
    named = f"{agreement.name}, " if agreement.name else ""
    return f"{named}{where}{agreement.culprit or 'a place that was not named'}{details}"
