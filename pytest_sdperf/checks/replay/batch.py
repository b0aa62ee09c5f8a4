"""Images of one batch: each of them must be what it is alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pytest_sdperf.builds.execution.calls import ReplayCall
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references.which import by_torch
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
from pytest_sdperf.checks.replay.compare import answer_of, is_indistinct, limits_of, spread_of
from pytest_sdperf.core.files.arrays import Arrays
from pytest_sdperf.core.values.replays import Replay

BATCH = 4
"""Images of the batch of a case that draws one, where its engine takes other sizes."""
MOST = 4
"""Rows of a batch that are compared with what they are alone."""


def not_applicable(runner: CaseRunner) -> str:
    """Say why a case has no batch, and what to type; empty if it has one."""
    if plain := is_plain_torch(runner):
        return plain
    rows = rows_of(runner, runner.case.batch_size)
    if rows > 1 or not one_size(runner):
        return "" if rows else "not applicable: the model says of no input which axis the batch is along"
    return "not applicable: a batch of one image; type --sdperf-batch-size=4, or --sdperf-shapes=dynamic"


def rows_of(runner: CaseRunner, batch_size: int) -> int:
    """Return how many rows the inputs of a case have: a guided UNet has two for each image."""
    if runner.is_pipeline:
        return batch_size
    work = dataclasses.replace(runner.case.workload, batch_size=batch_size)
    specs = runner.model.inputs(runner.case.component, work)
    return next((spec.shape[0] for spec in specs if spec.axes.get(0) == "batch"), 0)


def mix(runner: CaseRunner) -> Replay:
    """Call a loaded case with a batch of different images, and with each of them alone.

    Where it takes one size, alone means in every place of the batch: nothing of another image is there then.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch, could not run.
    """
    size = _size(runner)
    alone = calls_of(runner, size=size if one_size(runner) else 1)
    asked = calls_of(runner) if by_torch(runner) else alone  # a graph takes the sizes that the case does
    count = rows_of(runner, size)
    together = ReplayCall("the batch", _of(runner, size), _prompts(range(size)), drawn=size, rows=tuple(range(count)))
    torch = wanted(runner, asked)
    found = make_calls(runner, [together, *alone])
    return judged(runner, asked, torch, lambda torch: _compared(runner, found, torch, count=count))


def _compared(runner: CaseRunner, found: Answers, torch: ReferenceAnswers, *, count: int) -> Replay:
    rows = _looked_at(runner)
    pairs = list(zip(rows, found.outputs[1:], torch.exact, torch.rough, strict=True))
    mixed = [_row(found.outputs[0], row) for row in rows]
    spreads, answers = [], []
    for own, (row, single, exact, several) in zip(mixed, pairs, strict=True):
        rough = [_row(one, 0) for one in several]
        limits = limits_of(_row(exact, 0), rough, dtype=torch.dtype)
        name = f"{_word(runner)} {row + 1} of {count}"
        spreads.append(spread_of(f"{name}, and alone", [own, _row(single, 0)], limits))
        answers.append(answer_of(name, own, _row(exact, 0), rough, dtype=torch.dtype))
    return Replay(
        check="batch",
        dtype=torch.dtype,
        reference=torch.reference,
        by=torch.by,
        exact=False,  # kernels of other sizes add up in another order
        spreads=tuple(spreads),
        answers=tuple(answers),
        overwritten=found.overwritten,
        indistinct=is_indistinct(_row(torch.exact[0], 0), _row(torch.exact[-1], 0), limits),
        prepared=found.prepared_by(len(found.outputs)),
    )


def calls_of(runner: CaseRunner, *, size: int = 1) -> list[ReplayCall]:
    """Return one call for each row that is looked at: it alone, in every place of a batch of `size` images."""
    drawn = _size(runner)
    count = rows_of(runner, drawn)
    return [_alone(runner, row, drawn=drawn, size=size, count=count) for row in _looked_at(runner)]


def _size(runner: CaseRunner) -> int:
    """Return the images of the batch."""
    own = runner.case.batch_size
    return own if own > 1 or one_size(runner) else BATCH


def _looked_at(runner: CaseRunner) -> list[int]:
    last = rows_of(runner, _size(runner)) - 1
    return sorted({round(place * last / (MOST - 1)) for place in range(MOST)})


def _of(runner: CaseRunner, size: int) -> Any:
    return dataclasses.replace(runner.case.workload, batch_size=size)


def _alone(runner: CaseRunner, row: int, *, drawn: int, size: int, count: int) -> ReplayCall:
    """Return a call with one row of a drawn batch in every place of a batch of `size` images."""
    places = rows_of(runner, size)
    prompts = _prompts([row] * size) if runner.is_pipeline else ()
    name = f"{_word(runner)} {row + 1} of {count} alone"
    return ReplayCall(name, _of(runner, size), prompts, drawn=drawn, rows=(row,) * places)


def _prompts(images: Sequence[int]) -> tuple[str, ...]:
    return tuple(PROMPTS[image % len(PROMPTS)] for image in images)


def _row(outputs: Arrays, row: int) -> dict[str, Any]:
    return {name: array[row] for name, array in outputs.items()}


def _word(runner: CaseRunner) -> str:
    return "image" if runner.is_pipeline else "row"
