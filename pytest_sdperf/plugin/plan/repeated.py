"""What tests cost that call a loaded case again and again, where nobody has measured it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.plan.estimates import Speed, first_seconds, request_seconds, weights_bytes


@dataclass(frozen=True)
class Repeated:
    """A case that is called again and again.

    Attributes:
        case: The case.
        model: Its model.
        speed: Of the device.
        dtype: Dtype of its weights.
        start_s: Until a process can load.
    """

    case: Case
    model: Model
    speed: Speed
    dtype: str
    start_s: float

    def seconds(self, count: int) -> float | None:
        """Return how long a process takes that calls it `count` times."""
        call_s, first_s = self._call_s(self.case), self._first_s(self.case)
        return None if call_s is None or first_s is None else self.start_s + first_s + (count - 1) * call_s

    def _call_s(self, case: Case) -> float | None:
        return request_seconds(case, self.model, self.speed, dtype=self.dtype)

    def _first_s(self, case: Case) -> float | None:
        call_s, size = self._call_s(case), weights_bytes(case, self.model, dtype=self.dtype)
        return None if call_s is None or size is None else first_seconds(call_s, weights_bytes=size, speed=self.speed)
