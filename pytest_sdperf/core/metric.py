"""The contract of a metric: one number of each measuring process, stored and judged beside latency and memory.

Energy and host waits are such numbers, too. Our other metrics stand in the same list, and judge a measurement by code
of their own, since no number and rule can say it: memory, by the process that took least, because a search for
algorithms only ever adds; and latency, which is what measuring itself goes by. How many processes there are depends on
it, a floor says which times cannot be, and a slower card or other programs may explain what no build is to blame for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pytest_sdperf.core.values import Sample
from pytest_sdperf.core.values.metric import MetricInfo, Number


class Metric(ABC):
    """A number that rides on a measurement.

    Example, in a root `conftest.py`, of an engine whose `facts()` tell `{"own": {"workspace_mb": 96}}`::

        class Workspace(Metric):
            name = "workspace"
            info = MetricInfo("workspace of a call", unit="MB", smallest_change=0.03)

            def extract(self, sample):
                return sample.facts.get("own", {}).get("workspace_mb")

        def pytest_sdperf_register(catalog):
            catalog.add_metric(Workspace())

    Attributes:
        name: Lower case words joined by hyphens; the `metric` of its verdicts.
        info: How its numbers are called and judged; it is stored with them.
    """

    name: str
    info: MetricInfo

    @abstractmethod
    def extract(self, sample: Sample) -> Number | None:
        """Return the number of one process, or a `Reading` with words; None where it has none.

        Args:
            sample: What the process measured; `facts` holds what the engine's runner tells.
        """
