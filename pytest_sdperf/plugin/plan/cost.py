"""What one case of a plan costs."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sdperf.plugin.plan.estimate import Estimate
from pytest_sdperf.plugin.plan.wanted import PlannedCase


@dataclass(frozen=True)
class CaseCost:
    """What one case costs; of builds that several cases share, the first case has the cost.

    Attributes:
        wanted: The case.
        to_make: Kinds of the steps that have to be made.
        cached: Number of steps that the cache holds.
        build, run, disk: Seconds of building, seconds of everything else, bytes to be written; None if not known.
        memory: Peak memory of the device; None if not known.
        out_of_memory: Whether it ran out of memory last time.
        resumed: Whether an interrupted run measured it already.
        problem: Why it cannot be built; empty if nothing is known against it.
    """

    wanted: PlannedCase
    to_make: tuple[str, ...] = ()
    cached: int = 0
    build: Estimate | None = None
    run: Estimate | None = None
    disk: Estimate | None = None
    memory: Estimate | None = None
    out_of_memory: bool = False
    resumed: bool = False
    problem: str = ""

    @property
    def seconds(self) -> Estimate | None:
        """Building and everything else."""
        return None if self.build is None or self.run is None else self.build + self.run
