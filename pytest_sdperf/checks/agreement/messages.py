"""Agreements as sentences for a person."""

from __future__ import annotations

import math

from pytest_sdperf.checks.agreement.joint_words import of_joints
from pytest_sdperf.checks.agreement.steps import first_beyond
from pytest_sdperf.checks.agreement.tensors import RELATIVE_L2
from pytest_sdperf.checks.images.similarity import bound, spelled, value
from pytest_sdperf.checks.precision.drift import DRIFT, ROUNDING
from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.values.outcomes import Agreement


def sentences(agreement: Agreement) -> str:
    """Say how far the obtained tensor is from the reference, and what was recognised."""
    says_it_all = agreement.level == IMAGE and agreement.told and agreement.error == math.inf
    distance = "" if says_it_all and math.isfinite(agreement.limit) else _distance(agreement)
    hidden = f"Nothing inside was compared: {agreement.hidden}." if agreement.hidden else ""
    return " ".join(filter(None, [distance, agreement.told, hidden]))


def _distance(agreement: Agreement) -> str:
    level, by = agreement.level, agreement.by
    if agreement.level == DRIFT:
        return _of_drift(agreement)
    if agreement.joints:
        return of_joints(agreement, _in(agreement))
    if agreement.steps:
        return _of_steps(agreement)
    if not math.isfinite(agreement.limit):
        return (
            f"The {level} cannot be judged: plain {by} {agreement.dtype} is not finite on these weights and inputs, "
            f"so nothing can be called right in this precision."
        )
    if agreement.error == math.inf:
        return f"The {level} {'are' if level == 'steps' else 'is'} not comparable: {agreement.culprit}."
    if agreement.metric != RELATIVE_L2:
        metric, limit = agreement.metric, bound(agreement.metric, agreement.limit)
        return (
            f"The {level} has {spelled(metric, agreement.error)} against {by} {agreement.reference}; plain {by} "
            f"{agreement.dtype} has {value(metric, agreement.reference_error)}{_in(agreement)}, so {limit} passes."
        )
    where = "" if agreement.passed else f"; the worst element is {agreement.culprit}"
    return (
        f"The {level} has a relative L2 error {agreement.error:.2e} against {by} {agreement.reference}; plain {by} "
        f"{agreement.dtype} has {agreement.reference_error:.2e}{_in(agreement)}, so at most {agreement.limit:.2e} "
        f"passes{where}."
    )


def _in(agreement: Agreement) -> str:
    """Say in how many roundings of its initial latents plain torch was looked at; nothing where it was one."""
    return "" if agreement.roundings == 1 else f" in the worst of {agreement.roundings} roundings"


def _of_steps(agreement: Agreement) -> str:
    """Say where the steps part from the reference, and how the error grew before and after."""
    steps, by = agreement.steps, agreement.by
    number = first_beyond(steps)
    if number is None:
        return (
            f"All {len(steps)} steps are within their limits; nearest to it is {agreement.culprit} with a relative L2 "
            f"error {agreement.error:.2e} against {by} {agreement.reference}, where at most {agreement.limit:.2e} "
            f"passes."
        )
    if not math.isfinite(agreement.limit):
        return (
            f"From step {number} of {len(steps)} on nothing can be judged: plain {by} {agreement.dtype} is not "
            f"finite there, so nothing can be called right in this precision."
        )
    if agreement.error == math.inf:
        text = f"From step {number} of {len(steps)} on the latents are not finite."
    else:
        text = (
            f"The latents part from {by} {agreement.reference} at step {number} of {len(steps)}: relative L2 error "
            f"{agreement.error:.2e}, and plain {by} {agreement.dtype} has {agreement.reference_error:.2e} "
            f"there{_in(agreement)}, so at most {agreement.limit:.2e} passes."
        )
    return " ".join(filter(None, [text, _growth(agreement, number)]))


def _of_drift(agreement: Agreement) -> str:
    """Say at which step half precision drifts too far from single precision, and how the drift grew."""
    steps, dtype = agreement.steps, agreement.dtype
    number = first_beyond(steps)
    explained = "rounding explains" if agreement.by == ROUNDING else f"plain {agreement.by} drifts by"
    widest = _in(agreement)
    if number is None:
        return (
            f"All {len(steps)} steps in {dtype} are within their limits of those in float32; nearest to it is "
            f"{agreement.culprit} with a drift of {agreement.error:.2e}, where {explained} "
            f"{agreement.reference_error:.2e}{widest} and at most {agreement.limit:.2e} passes."
        )
    if not math.isfinite(agreement.limit):
        text = (
            f"From step {number} of {len(steps)} on nothing says how far {dtype} may drift: what {explained} is not "
            f"finite there."
        )
    elif agreement.error == math.inf:
        text = f"In {dtype} the latents are not finite from step {number} of {len(steps)} on."
    else:
        text = (
            f"In {dtype} the latents drift from those in float32 beyond the limit at step {number} of {len(steps)}: "
            f"by {agreement.error:.2e}, where {explained} {agreement.reference_error:.2e}{widest} and at most "
            f"{agreement.limit:.2e} passes."
        )
    return " ".join(filter(None, [text, _growth(agreement, number, "drift")]))


def _growth(agreement: Agreement, number: int, what: str = "error") -> str:
    """Say how the error of the steps grew, at a few of them."""
    told = {0, number - 2, number - 1, len(agreement.steps) - 1}
    told |= {round(place * (len(agreement.steps) - 1) / 4) for place in range(5)}
    shown = [(index + 1, agreement.steps[index].error) for index in sorted(told) if index >= 0]
    finite = [f"{error:.2e} after step {place}" for place, error in shown if math.isfinite(error)]
    return f"The {what} was {', '.join(finite)}." if finite else ""
