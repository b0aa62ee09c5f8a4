"""Times of resolutions that take turns, beside those of each alone: processes in the order A B B A."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from pytest_sdperf.builds.execution.calls import call_requests
from pytest_sdperf.builds.execution.runner import CaseRunner, Run
from pytest_sdperf.checks.ab.measuring import Side, take_pairs
from pytest_sdperf.checks.pipelines.measure import Watched, ready
from pytest_sdperf.checks.replay.resolutions import calls_of
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.machine import health
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.replays import Interleaving
from pytest_sdperf.tasks.interleave import SizesTimed, TimeSizes

TITLES = {"alone": "alone", "turns": "in turns"}
SIDES = tuple(TITLES)
CPU_ROUNDS, GPU_ROUNDS = 5, 20


def not_applicable(runner: CaseRunner) -> str:
    """Say why the times of a case cannot be taken like this; empty if they can."""
    if runner.case.component == PIPELINE:
        return (
            "not applicable: a whole request is many calls of one size; name the component whose sizes take turns: "
            "--sdperf-component=unet"
        )
    return ""


def interleave(
    runner: CaseRunner,
    sizes: Sequence[Workload],
    *,
    pairs: int,
    more: Callable[[Interleaving], int],
) -> Interleaving:
    """Measure pairs of fresh processes.

    Side A loads the component for one resolution after the other and runs it there alone; side B loads it once, and the
    resolution changes with every call.

    Args:
        runner: The case.
        sizes: The resolutions.
        pairs: How many pairs to begin with.
        more: Says how many more, of what was measured until now; 0 ends the measurement.

    Returns:
        The times until now; with a `failure` where something could not be built or loaded, ran out of memory, crashed
        or hung.
    """
    times = _Times(runner, sizes)
    ready(times)
    sides = [times.side(name) for name in SIDES]
    while True:
        begun = len(times.medians_s["turns"])
        take_pairs(sides, "resolutions alone and in turns", begun=begun, pairs=pairs, say=runner.context.say)
        found = times.found()
        pairs = 0 if found.health or found.failure else more(found)
        if not pairs:
            return found


class _Times(Watched):
    """What the processes of both sides told until now."""

    def __init__(self, runner: CaseRunner, sizes: Sequence[Workload]) -> None:
        super().__init__(runner)
        self._sizes = sizes
        self._request: TimeSizes | None = None
        self._prepared: list[Sequence[int]] = []
        self.medians_s: dict[str, list[Mapping[str, float]]] = {side: [] for side in SIDES}

    def prepare(self) -> None:
        """Build and compile what the processes load, and draw their inputs."""
        runner = self.runner
        calls = calls_of(runner, self._sizes)[: len(self._sizes)]
        rounds = CPU_ROUNDS if runner.context.device.kind == "cpu" else GPU_ROUNDS
        self._request = TimeSizes(runner.execution({}), call_requests(runner, calls), rounds)

    def side(self, name: str) -> Side:
        """Return one of the sides."""

        def start(count: int) -> contextlib.AbstractContextManager[Sequence[Run]]:
            assert self._request is not None  # a side that could not be prepared starts nothing
            return self.runner.workers(name, self._request, count=count, module="interleave")

        def take(worker: Run) -> None:
            timed = convert(self.ask(worker), SizesTimed)
            self.medians_s[name].append(timed.medians_s)
            if timed.prepared:
                self._prepared.append(timed.prepared)

        return Side(f"resolutions {TITLES[name]}", self, start, take)

    def found(self) -> Interleaving:
        """Return all of it, with what is wrong with the machine."""
        before, during, after = self.states()
        device = self.runner.context.device
        return Interleaving(
            alone_s=_by_name(self.medians_s["alone"]),
            turns_s=_by_name(self.medians_s["turns"]),
            prepared=_counted(self._prepared),
            health=health.unfit(before, after, device, during=during),
            failure=self.failure,
        )


def _by_name(medians_s: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(one[name] for one in medians_s) for name in (medians_s[0] if medians_s else ())}


def _counted(prepared: Sequence[Sequence[int]]) -> dict[str, int]:
    if not prepared:
        return {}
    return {"first": max(one for one, _ in prepared), "later": max(two - one for one, two in prepared)}
