"""How long each stage of one whole request takes: every call of a component, and everything between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pytest_sdperf.core.clock import monotonic_s
from pytest_sdperf.core.components import BETWEEN
from pytest_sdperf.core.values import Facts
from pytest_sdperf.tasks.request.prompts import Call
from pytest_sdperf.tasks.sampling.timing import without_collections

T = TypeVar("T")
_DIGITS = 7  # a baseline keeps every call; a tenth of a microsecond is more than a clock tells


class Stages:
    """Times calls, with the device idle before and after each: so nothing of this is done where a request is timed.

    Attributes:
        facts: `stages_s`: component -> seconds of each call in order, and under `between` those of all the rest
            (tokens, scheduler, guidance); or `stages_not_available`, which says why. Empty until a request was watched.
    """

    def __init__(self, *, on_cpu: bool) -> None:
        self.facts: Facts = {}
        self._on_cpu = on_cpu
        self._seconds: dict[str, list[float]] = {}

    def watched(self, component: str, call: Call) -> Call:
        """Return a call of a component that is timed."""
        return lambda inputs: self.timed(component, lambda: call(inputs))

    def timed(self, component: str, call: Callable[[], T]) -> T:
        """Make one call of a component."""
        self._synchronize()
        start_s = monotonic_s()
        result = call()
        self._synchronize()
        self._seconds.setdefault(component, []).append(monotonic_s() - start_s)
        return result

    def watch(self, request: Callable[[], object]) -> None:
        """Make one request whose components are watched; what it raises is said and loses no measurement."""
        self._seconds.clear()
        try:
            with without_collections():
                self._synchronize()
                start_s = monotonic_s()
                request()
                self._synchronize()
                whole_s = monotonic_s() - start_s
        except Exception as error:  # noqa: BLE001 - whatever it is, the times are measured already
            self.facts = {"stages_not_available": f"the watched request failed: {type(error).__name__}: {error}"[:300]}
            return
        rest_s = whole_s - sum(map(sum, self._seconds.values()))
        found = {**self._seconds, BETWEEN: [max(0.0, rest_s)]}
        self.facts = {"stages_s": {name: [round(one, _DIGITS) for one in each] for name, each in found.items()}}

    def _synchronize(self) -> None:
        if not self._on_cpu:
            import torch

            torch.cuda.synchronize()
