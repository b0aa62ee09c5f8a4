"""Resolutions in turns: one loaded case serves them all, and each as torch does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pytest_sdperf.builds.execution.calls import ReplayCall
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.replay.calls import (
    PROMPTS,
    Answers,
    ReferenceAnswers,
    is_plain_torch,
    judged,
    make_calls,
    one_size,
    wanted,
)
from pytest_sdperf.checks.replay.compare import answer_of, limits_of, spread_of, with_stale
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.replays import Replay

USUAL: Sequence[tuple[int, int]] = ((512, 512), (640, 448), (768, 768))
"""Width and height in pixels; those of OneDiff's benchmark with several resolutions are of this kind."""
STEP = 64
"""Pixels that a UNet can halve three times, after the VAE has divided them by eight."""


def sizes_of(runner: CaseRunner, named: Sequence[tuple[int, int]] = ()) -> list[Workload]:
    """Return the resolutions of a case: those that were named, else the usual ones.

    A model of less than 512 pixels has them in its own proportion, rounded up to what its UNet can halve.
    """
    side = runner.model.height or runner.case.height  # a pipeline of the user's own knows its size by itself
    sizes = named or usual_of(side)
    return [dataclasses.replace(runner.case.workload, width=width, height=height) for width, height in sizes]


def usual_of(side: int) -> list[tuple[int, int]]:
    """Return width and height of the usual resolutions of a model whose own images are `side` pixels high."""
    scale = min(1.0, side / USUAL[0][0])
    return [(_up(width * scale), _up(height * scale)) for width, height in USUAL]


def _up(pixels: float) -> int:
    return -int(-pixels // STEP) * STEP


def not_applicable(runner: CaseRunner) -> str:
    """Say why the resolution of a case means nothing; empty where it means something."""
    if runner.case.component.startswith("text_encoder"):
        return "not applicable: a text encoder sees no pixels"
    return is_plain_torch(runner) or one_size(runner)


def spelled(workload: Workload) -> str:
    """Return a resolution as it is typed: `640x448`."""
    return f"{workload.width}x{workload.height}"


def calls_of(runner: CaseRunner, sizes: Sequence[Workload]) -> list[ReplayCall]:
    """Return one call for each resolution, and another one for each."""
    return [
        ReplayCall(
            f"{spelled(size)}{', other inputs' if seed else ''}", size, prompt * runner.case.batch_size, seed=seed
        )
        for seed, prompt in ((0, PROMPTS[:1]), (1, PROMPTS[1:2]))
        for size in sizes
    ]


def resize(runner: CaseRunner, sizes: Sequence[Workload]) -> Replay:
    """Call a case, loaded once, at several resolutions in turns: three rounds, the second with other inputs.

    An engine that remembers an answer by its size has another one to give then.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch, could not run.
    """
    calls, count = calls_of(runner, sizes), len(sizes)
    torch = wanted(runner, calls)
    found = make_calls(runner, [*calls, *calls[:count]])
    return judged(runner, calls, torch, lambda torch: _compared(runner, calls, found, torch))


def _compared(runner: CaseRunner, calls: Sequence[ReplayCall], found: Answers, torch: ReferenceAnswers) -> Replay:
    count = len(calls) // 2
    spreads, answers = [], []
    for number, call in enumerate(calls):
        exact, rough, obtained = torch.exact[number], torch.rough[number], found.outputs[number]
        limits = limits_of(exact, rough, dtype=torch.dtype)
        answer = answer_of(call.name, obtained, exact, rough, dtype=torch.dtype)
        if number < count:
            spreads.append(spread_of(f"{call.name} again", [obtained, found.outputs[number + 2 * count]], limits))
        else:
            earlier = number - count
            answer = with_stale(answer, obtained, found.outputs[earlier], limits, call=calls[earlier].name)
        answers.append(answer)
    return Replay(
        check="resolutions",
        dtype=torch.dtype,
        reference=torch.reference,
        by=torch.by,
        exact=runner.context.device.kind in runner.engine.repeats_on,
        spreads=tuple(spreads),
        answers=tuple(answers),
        overwritten=found.overwritten,
        prepared=found.prepared_by(count),
        peaks_bytes=_by_round(found.peaks_bytes, count),
    )


def _by_round(peaks: Mapping[str, Sequence[int]], size: int) -> dict[str, tuple[int, ...]]:
    return {
        way: tuple(max(of_calls[start : start + size]) for start in range(0, len(of_calls), size))
        for way, of_calls in peaks.items()
    }
