"""Times of resolutions that take turns, beside those of each alone: processes in the order A B B A."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_sdperf.components import PIPELINE
from pytest_sdperf.executing.runner import CaseRunner
from pytest_sdperf.machine import health
from pytest_sdperf.measuring.pairs import PAIRS_AT_ONCE
from pytest_sdperf.replay.calls import call_arguments
from pytest_sdperf.replay.resolutions import calls_of
from pytest_sdperf.units import plural
from pytest_sdperf.values import Workload
from pytest_sdperf.values.replays import Interleaving

SIDES = ("alone", "turns")
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

    Raises:
        SdperfError: A process refused, crashed, hung or ran out of memory.
    """
    bench = runner.workbench
    on_cpu = bench.device.kind == "cpu"
    calls = calls_of(runner, sizes)[: len(sizes)]
    arguments = {**call_arguments(runner, calls), "rounds": CPU_ROUNDS if on_cpu else GPU_ROUNDS}
    for call, told in zip(calls, arguments["calls"], strict=True):
        told["name"] = call.name
    times: dict[str, dict[str, list[float]]] = {side: {call.name: [] for call in calls} for side in SIDES}
    prepared: list[Sequence[int]] = []
    before = bench.probe.health(bench.device)
    while pairs:
        begun = len(next(iter(times["turns"].values())))
        for start in range(begun, begun + pairs, PAIRS_AT_ONCE):
            numbers = range(start, min(start + PAIRS_AT_ONCE, begun + pairs))
            _take(runner, arguments, numbers, times=times, prepared=prepared)
        after = bench.probe.health(bench.device)
        found = Interleaving(
            alone_s={name: tuple(medians) for name, medians in times["alone"].items()},
            turns_s={name: tuple(medians) for name, medians in times["turns"].items()},
            prepared=_counted(prepared),
            health=health.unfit(before, after, bench.device),
        )
        pairs = 0 if found.health else more(found)
    return found


def _take(
    runner: CaseRunner,
    arguments: Mapping[str, Any],
    numbers: Sequence[int],
    *,
    times: Mapping[str, Mapping[str, list[float]]],
    prepared: list[Sequence[int]],
) -> None:
    """Let the processes of some pairs measure, one after the other; every second pair is in the other order."""
    say, what = runner.workbench.say, f"{runner.case.model} {runner.case.component}"
    say(f"starting {plural(2 * len(numbers), 'process', 'processes')} for {what}, resolutions alone and in turns")
    with contextlib.ExitStack() as stack:
        waiting = {
            side: iter(stack.enter_context(runner.workers(side, arguments, count=len(numbers), module="interleave")))
            for side in SIDES
        }
        for number in numbers:
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                say(f"measuring {what}: resolutions {'alone' if side == 'alone' else 'in turns'}, pair {number + 1}")
                answer = next(waiting[side])()
                for name, median_s in answer["medians_s"].items():
                    times[side][name].append(median_s)
                if answer["prepared"]:
                    prepared.append(answer["prepared"])


def _counted(prepared: Sequence[Sequence[int]]) -> dict[str, int]:
    if not prepared:
        return {}
    return {"first": max(one for one, _ in prepared), "later": max(two - one for one, two in prepared)}
