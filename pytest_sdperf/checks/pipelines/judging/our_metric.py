"""What a metric of ours has beside what every metric has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_sdperf.core.metric import Metric
from pytest_sdperf.core.values import Sample
from pytest_sdperf.core.values.outcomes import Outcome


class OurMetric(Metric):
    """A metric whose verdicts have codes of their own.

    Attributes:
        codes: HELD, IMPROVED and REGRESSED -> its code.
        later: Whether baselines of the same case may be older: that they lack it is no news, and makes no case NEW.
        said_elsewhere: Whether another verdict says that a process lacks it.
    """

    codes: Mapping[Outcome, str]
    later = False
    said_elsewhere = False

    def why_unknown(self, samples: Iterable[Sample]) -> str:
        """Return why a process has no number; empty where none says so."""
        return ""
