"""What cannot be combined with what, why, and what to type instead: one table, checked before any value is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.flags import BY_NAME
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.other_side import SIDES
from pytest_sdperf.core.errors import OptionError

_USUAL = "{one} and {other} do not go together: {why}. Leave one of them out."
_PIPELINE = "{other} and {one} do not go together: {why}. Leave {other.spelling} or {one.spelling} out."
_WHOLE = "{other} and {one} do not go together: {why}. Leave {other.spelling} out, or type {other.spelling}=pipeline."


@dataclass(frozen=True)
class Conflict:
    """Two options that cannot be combined.

    Attributes:
        one, other: Their names. `weights=none` is the option with this value among its names, and `component!=pipeline`
            the option with any other value; a switch counts where it is on.
        why: Why not.
        message: What is said where both are there.
        gives_way: Whether `other` is left out where a file says it and `one` is typed.
    """

    one: str
    other: str
    why: str
    message: str = _USUAL
    gives_way: bool = False


def _rows(one: str, others: Mapping[str, str], *, because: str = "", **more: Any) -> Iterator[Conflict]:
    """Yield the conflicts of one option; `others` has their reasons by the names of options, separated by spaces."""
    for names, why in others.items():
        yield from (Conflict(one, other, f"{because}{why}", **more) for other in names.split())


_SIDES = " ".join(SIDES)
CONFLICTS = (
    *_rows("pipeline", {
        "model": "is a model of its own",
        "engine ab-engine": "is its own engine",
        "optimization ab-optimization": "is optimized already, or not",
        "fuser": "is not exported, so nothing is fused",
        "exporter opset shapes": "is not exported",
        "weights": "has its weights",
        "onnx-dir onnx-reference": "holds no graphs",
        "scheduler": "has its scheduler",
        "force-fp32-ops": "is not built",
        "plan": "is known only once it is made",
        "resume": "may have changed its code since",
    }, because="a pipeline of your own is tested as it is, and ", message=_PIPELINE, gives_way=True),
    Conflict("pipeline", "component!=pipeline", "a pipeline of your own is tested as a whole request", _WHOLE),
    *_rows("plant", {
        "update-baselines": "nothing of such a run is kept",
        "resume": "what an interrupted run measured is without it",
        "plan": "a plan runs nothing that could be altered",
        "selftest": "a self-test measures what is sound",
        "inprocess": "it may end the process that it is in",
        _SIDES: "both sides would have it",
        "pipeline": "a pipeline of your own is tested as it is",
    }),
    *_rows("selftest", {  # what a file says of every run may stand there
        _SIDES: "a self-test compares one build with itself",
        "json html explain resume": "a self-test gives no case a verdict",
        "plan": "what a self-test takes is its time budget",
    }, gives_way=True),
    Conflict("selftest", "inprocess", "each sample of a self-test comes from a fresh process"),
    *(row for side in SIDES for row in _rows(side, {
        "update-baselines": "an A/B judges by its first side and touches no baseline",
        "inprocess": "each sample of an A/B comes from a fresh process",
        "plan": "what a second side takes is not known",
        "resume": "of an A/B nothing is kept",
    })),
    *_rows("weights=none", {
        "fuser=ort": "the optimizer of onnxruntime reads weights",
        "exporter=torchscript": "the tracer executes the module",
        "onnx-dir": "an external graph has its weights",
    }),
    *_rows("onnx-dir", {"exporter!=dynamo opset!=18 shapes": "these graphs were exported already"}),
)  # fmt: skip


def compatible(answers: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Return what was said, by the name of the option, without what gives way to something that was typed.

    Raises:
        OptionError: Two of them cannot be combined.
    """
    kept = dict(answers)
    for conflict in CONFLICTS:
        one, other = _said(conflict.one, kept), _said(conflict.other, kept)
        if one is None or other is None:
            continue
        if not (conflict.gives_way and one.typed and not other.typed):
            raise OptionError(conflict.message.format(one=one, other=other, why=conflict.why))
        kept = {name: answer for name, answer in kept.items() if answer is not other}
    return kept


def _said(condition: str, answers: Mapping[str, OptionValue]) -> OptionValue | None:
    """Return the answer that meets a condition of the table; None where none does."""
    name, equals, value = condition.partition("=")
    option = BY_NAME[name.removesuffix("!")]
    answer = answers.get(option.name)
    if answer is None or not (option.metavar or read.switch(answer)):
        return None
    return answer if not equals or (value in read.names(answer)) is not name.endswith("!") else None
