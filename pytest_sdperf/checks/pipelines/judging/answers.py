"""Did the processes of a measurement give the same answer to the same inputs? Bits are compared, by their digests.

How far answers are apart is judged by agreement and replay; here it is whether a promise of equal bits holds.
"""

from __future__ import annotations

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.messages import opening
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.our_metric import OurMetric
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.core.values.remark import Remark


class Answers(OurMetric):
    """A promise of equal bits. It is FAILED as in a replay, and not INVALID: measuring again changes nothing."""

    name = "answers"
    leveled = False
    table = ""

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge it; None where it holds, or where there is none."""
        several, promised = _found(measurement)
        if not several or not promised:
            return None
        sentence = (
            f"{opening(measurement.case)}: {several} to the same inputs, and {measurement.case.engine} promises equal "
            f"bits for equal calls on this kind of device."
        )
        return Verdict(Outcome.FAILED, "bits-differ", sentence, self.name)

    def remark(self, measurement: Measurement) -> Remark | None:
        """Say that processes gave different answers where their engine promises nothing; None elsewhere."""
        several, promised = _found(measurement)
        if not several or promised:
            return None
        return Remark(f"{several} to the same inputs; the engine does not promise equal bits.", self.name)


def _found(measurement: Measurement) -> tuple[str, bool]:
    """Say how many answers there were, empty where all are equal or not known, and whether they are promised equal."""
    timed = [sample.facts.get("answer") for sample in (*measurement.samples, *measurement.replaced)]
    digests = [one["digest"] for one in timed if one]
    # Beside nothing that was timed, that of a comparison says nothing.
    found = [*digests, *([measurement.answer] if digests and measurement.answer else [])]
    if len(set(found)) < 2:
        return "", False
    beside = ", one of which was compared with a reference," if len(found) > len(digests) else ""
    several = f"{plural(len(set(found)), 'answer')} in {plural(len(found), 'process', 'processes')}{beside}"
    return several, all(one["promised"] for sample in measurement.samples if (one := sample.facts.get("answer")))
