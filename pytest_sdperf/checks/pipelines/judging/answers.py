"""Did the processes of a measurement give the same answer to the same inputs? Bits are compared, by their digests.

How far answers are apart is judged by agreement and replay; here it is whether a promise of equal bits holds.
"""

from __future__ import annotations

from pytest_sdperf.checks.judging.messages import opening
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.core.values.remark import Remark

METRIC = "answers"


def judge_answers(measurement: Measurement) -> Verdict | None:
    """Judge a promise of equal bits; None where it holds, or where there is none.

    It is FAILED as in a replay, and not INVALID: the machine is not to blame, and measuring again changes nothing.
    """
    several = _several(measurement)
    if not several or not _promised(measurement):
        return None
    sentence = (
        f"{opening(measurement.case)}: {several} to the same inputs, and {measurement.case.engine} promises equal bits "
        f"for equal calls on this kind of device."
    )
    return Verdict(Outcome.FAILED, "bits-differ", sentence, METRIC)


def remark_of(measurement: Measurement) -> Remark | None:
    """Say that processes gave different answers where their engine promises nothing; None elsewhere."""
    several = _several(measurement)
    if not several or _promised(measurement):
        return None
    return Remark(f"{several} to the same inputs; the engine does not promise equal bits.", "answers")


def _several(measurement: Measurement) -> str:
    """Say how many answers there were in how many processes; empty where all of them are equal, or not known."""
    timed = [sample.facts.get("answer") for sample in (*measurement.samples, *measurement.replaced)]
    digests = [one["digest"] for one in timed if one]
    # Beside nothing that was timed, that of a comparison says nothing.
    found = [*digests, *([measurement.answer] if digests and measurement.answer else [])]
    if len(set(found)) < 2:
        return ""
    beside = ", one of which was compared with a reference," if len(found) > len(digests) else ""
    return f"{plural(len(set(found)), 'answer')} in {plural(len(found), 'process', 'processes')}{beside}"


def _promised(measurement: Measurement) -> bool:
    answers = [sample.facts.get("answer") for sample in measurement.samples]
    return all(one["promised"] for one in answers if one)
