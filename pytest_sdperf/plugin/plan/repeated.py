"""What tests cost that call a loaded case again and again, where nobody has measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_sdperf.checks.replay.interleaving import CPU_ROUNDS, GPU_ROUNDS
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.plan.estimates import Speed, first_seconds, request_seconds, weights_bytes
from pytest_sdperf.tasks.interleave import WARM


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

    def turns_seconds(self, sizes: Sequence[tuple[int, int]], *, pairs: int) -> float | None:
        """Return how long sizes in turns take beside each alone.

        Side A loads the case once for each size, side B once for all of them.

        Args:
            sizes: Width and height.
            pairs: Processes of each side.
        """
        cases = [replace(self.case, width=width, height=height) for width, height in sizes]
        calls = WARM + (CPU_ROUNDS if self.speed.kind == "cpu" else GPU_ROUNDS)
        seconds = [(self._first_s(case), self._call_s(case)) for case in cases]
        known = [(first_s, call_s) for first_s, call_s in seconds if first_s is not None and call_s is not None]
        if len(known) < len(seconds) or not known:
            return None
        alone_s = sum(first_s + calls * call_s for first_s, call_s in known)
        turns_s = known[0][0] + sum(calls * call_s for _, call_s in known)
        return pairs * (2 * self.start_s + alone_s + turns_s)

    def _call_s(self, case: Case) -> float | None:
        return request_seconds(case, self.model, self.speed, dtype=self.dtype)

    def _first_s(self, case: Case) -> float | None:
        call_s, size = self._call_s(case), weights_bytes(case, self.model, dtype=self.dtype)
        return None if call_s is None or size is None else first_seconds(call_s, weights_bytes=size, speed=self.speed)
