"""What comparisons with a reference mean together: one verdict."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_sdperf.checks.agreement.locations import sentence
from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.tensors import share_of_limit
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict


def judge_agreements(agreements: Sequence[Agreement], *, metric: str) -> Verdict:
    """Return the verdict on comparisons: the first one beyond its limit, in the order of the data flow, is its code.

    Args:
        agreements: At least one.
        metric: Of the verdict.
    """
    wrong = [one for one in agreements if not one.passed]
    if not wrong:
        nearest = max(agreements, key=share_of_limit)
        return Verdict(Outcome.PASSED, "outputs-agree", sentences(nearest), metric)
    first, *others = wrong
    where = [sentence(one.located) for one in wrong if one.located is not None]
    details = tuple(filter(None, [*map(sentences, others), *where]))
    return Verdict(Outcome.FAILED, f"{first.level}", sentences(first), metric, details=details)
