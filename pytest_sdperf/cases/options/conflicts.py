"""What cannot be combined with what, why, and what to type instead: one table, checked before any value is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


_OWN_PIPELINE: Mapping[str, str] = {
    "model": "is a model of its own",
    "engine": "is its own engine",
    "optimization": "is optimized already, or not",
    "fuser": "is not exported, so nothing is fused",
    "exporter": "is not exported",
    "opset": "is not exported",
    "shapes": "is not exported",
    "weights": "has its weights",
    "onnx-dir": "holds no graphs",
    "onnx-reference": "holds no graphs",
    "scheduler": "has its scheduler",
    "force-fp32-ops": "is not built",
    "plan": "is known only once it is made",
    "resume": "may have changed its code since",
    "ab-engine": "is its own engine",
    "ab-optimization": "is optimized already, or not",
}
_OTHER_SIDE: Mapping[str, str] = {
    "update-baselines": "an A/B judges by its first side and touches no baseline",
    "inprocess": "each sample of an A/B comes from a fresh process",
    "plan": "what a second side takes is not known",
    "resume": "of an A/B nothing is kept",
}
_PLANTED: Mapping[str, str] = {
    "update-baselines": "nothing of such a run is kept",
    "resume": "what an interrupted run measured is without it",
    "plan": "a plan runs nothing that could be altered",
    "selftest": "a self-test measures what is sound",
    "inprocess": "it may end the process that it is in",
    **dict.fromkeys(SIDES, "both sides would have it"),
    "pipeline": "a pipeline of your own is tested as it is",
}
# What a file says of every run may stand there.
_SELF_TEST: Mapping[str, str] = {
    **dict.fromkeys(SIDES, "a self-test compares one build with itself"),
    **dict.fromkeys(("json", "explain", "resume"), "a self-test gives no case a verdict"),
    "plan": "what a self-test takes is its time budget",
}

CONFLICTS = (
    *(
        Conflict("pipeline", other, f"a pipeline of your own is tested as it is, and {why}", _PIPELINE, gives_way=True)
        for other, why in _OWN_PIPELINE.items()
    ),
    Conflict("pipeline", "component!=pipeline", "a pipeline of your own is tested as a whole request", _WHOLE),
    *(Conflict("plant", other, why) for other, why in _PLANTED.items()),
    *(Conflict("selftest", other, why, gives_way=True) for other, why in _SELF_TEST.items()),
    Conflict("selftest", "inprocess", "each sample of a self-test comes from a fresh process"),
    *(Conflict(side, other, why) for side in SIDES for other, why in _OTHER_SIDE.items()),
    Conflict("weights=none", "fuser=ort", "the optimizer of onnxruntime reads weights"),
    Conflict("weights=none", "exporter=torchscript", "the tracer executes the module"),
    Conflict("weights=none", "onnx-dir", "an external graph has its weights"),
    *(
        Conflict("onnx-dir", other, "these graphs were exported already")
        for other in ("exporter!=dynamo", "opset!=18", "shapes")
    ),
)


def compatible(answers: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Return what was said, without what gives way to something that was typed.

    Args:
        answers: By the name of the option.

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
