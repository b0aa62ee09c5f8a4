"""From the text of an answer to a value, or to a message that says what is allowed.

Each of these raises an `OptionError` for what it cannot read, and an `UnknownNameError`, with the nearest name and the
list, for a name that there is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.scenes import PROMPT_COUNT
from pytest_sdperf.core.settings import FAIL_ON

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_BYTES = {"": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_MIN_OPSET, _MAX_OPSET = 17, 23
_LATENT_FACTOR = 8


def refusal(answer: OptionValue, why: str, allowed: str, *examples: str) -> OptionError:
    """Return the error that quotes an answer, says what is wrong with it, what is allowed, and what to type."""
    typed = " or ".join(f"{answer.spelling}={example}" for example in examples)
    return OptionError(f"{answer}{why}. Allowed: {allowed}; type for example {typed}.")


def text(answer: OptionValue) -> str:
    """Read any text but spaces alone."""
    found = answer.text.strip()
    if not found:
        raise OptionError(f"{answer} is empty. Give it a value, or leave it out.")
    return found


def names(answer: OptionValue) -> tuple[str, ...]:
    """Split at commas, each name once."""
    pieces = [piece.strip() for piece in answer.text.split(",")]
    if not all(pieces):
        raise OptionError(f"{answer} holds an empty name. Separate names by single commas.")
    return tuple(dict.fromkeys(pieces))


def among(answer: OptionValue, kind: str, allowed: Iterable[str]) -> tuple[str, ...]:
    """Split at commas and check every name."""
    found = names(answer)
    UnknownNameError.check(kind, found, allowed)
    return found


def operators(answer: OptionValue, components: Iterable[str]) -> tuple[str, ...]:
    """Read pieces such as `unet:MultiHeadAttention`, sorted, each once."""
    known = tuple(components)
    for piece in names(answer):
        component, _, operator = piece.partition(":")
        if not re.fullmatch(r"[A-Z]\w*", operator):
            why, allowed = f": {piece!r} is not a component and an operator", "COMPONENT:OPERATOR, separated by commas"
            raise refusal(answer, why, allowed, "unet:MultiHeadAttention")
        UnknownNameError.check("component", [component], known)
    return tuple(sorted(names(answer)))


def one_of(answer: OptionValue, kind: str, allowed: Iterable[str]) -> str:
    """Check a single name."""
    found = among(answer, kind, allowed)
    if len(found) > 1:
        raise OptionError(f"{answer} names {len(found)} values. Allowed: one; type {answer.spelling}={found[0]}.")
    return found[0]


def verdicts(answer: OptionValue) -> frozenset[str]:
    """Read what fails too; `none` is nothing, where a file says more."""
    return frozenset(among(answer, "verdict of fail-on", (*FAIL_ON, "none"))) - {"none"}


def count(answer: OptionValue, noun: str, *, piece: str = "") -> int:
    """Read a whole number of at least 1: `piece`, or the whole answer."""
    piece = piece or answer.text.strip()
    if not re.fullmatch(r"[0-9]+", piece) or int(piece) < 1:
        raise refusal(answer, f": {piece!r} is not {noun}", "whole numbers from 1", "1")
    return int(piece)


def counts(answer: OptionValue, noun: str) -> tuple[int, ...]:
    """Read whole numbers of at least 1, separated by commas."""
    return tuple(dict.fromkeys(count(answer, noun, piece=piece) for piece in names(answer)))


def opset(answer: OptionValue) -> int:
    """Read an ONNX opset."""
    number = count(answer, "an opset")
    if not _MIN_OPSET <= number <= _MAX_OPSET:
        raise refusal(answer, f": opset {number} is not supported", f"{_MIN_OPSET} to {_MAX_OPSET}", "18")
    return number


def resolution(answer: OptionValue) -> tuple[int, int]:
    """Read `WIDTHxHEIGHT` or one number for both; return (height, width) in pixels."""
    match = re.fullmatch(r"([0-9]+)(?:x([0-9]+))?", answer.text.strip())
    if match is None:
        allowed = "WIDTHxHEIGHT or one number for both, in pixels"
        raise refusal(answer, " is not a resolution", allowed, "512", "768x512")
    width, height = int(match[1]), int(match[2] or match[1])
    allowed = f"multiples of {_LATENT_FACTOR}, because a latent is an eighth of the image"
    for side in (width, height):
        if side < _LATENT_FACTOR:
            raise refusal(answer, f": {side} is too small", allowed, "512")
        if side % _LATENT_FACTOR:
            below = side // _LATENT_FACTOR * _LATENT_FACTOR
            raise OptionError(
                f"{answer}: {side} is not divisible by {_LATENT_FACTOR}. Allowed: {allowed}; the nearest are {below} "
                f"and {below + _LATENT_FACTOR}."
            )
    return height, width


def resolutions(answer: OptionValue) -> tuple[tuple[int, int], ...]:
    """Read resolutions separated by commas, two or more; return (width, height) of each in pixels."""
    found = dict.fromkeys(resolution(OptionValue(piece, answer.spelling))[::-1] for piece in names(answer))
    if len(found) < 2:
        why, allowed = " names one resolution, and several take turns", "two or more, separated by commas"
        raise refusal(answer, why, allowed, "512,640x448,768")
    return tuple(found)


def repeats(answer: OptionValue) -> int:
    """Read a number of equal calls: one has nothing to be compared with."""
    number = count(answer, "a number of equal calls")
    if number < 2:
        raise refusal(answer, ": one call has no other to be compared with", "2 or more", "5")
    return number


def prompts(answer: OptionValue) -> int:
    """Read how many of the fixed prompts are drawn."""
    number, most = count(answer, "a number of prompts"), str(PROMPT_COUNT)
    if number > PROMPT_COUNT:
        raise refusal(answer, f": the fixed list has {most} prompts", f"whole numbers from 1 to {most}", most)
    return number


def seconds(answer: OptionValue) -> float:
    """Read a time of more than zero: `900`, `90s`, `15m`, `1.5h`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", answer.text.strip())
    value = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if value <= 0:
        raise refusal(answer, " is not a time", "a number above 0 with s, m or h, seconds without", "15m")
    return value


def size_bytes(answer: OptionValue) -> int:
    """Read a size on disk: `100GB`, `512MiB`, or plain bytes."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", answer.text.strip())
    unit = _BYTES.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise refusal(answer, " is not a size", "a number with MB, GB, TB, MiB, GiB or TiB, bytes without", "100GB")
    return int(float(match[1]) * unit)


def fraction(answer: OptionValue, *, most: float = 1.0) -> float:
    """Read a relative change between 0 and `most`: `2%` or `0.02`."""
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)(%?)", answer.text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < most:
        allowed = f"above 0 and below {most * 100:.0f}%"
        raise refusal(answer, " is not a relative change", allowed, "2%", "0.02")
    return value


def switch(answer: OptionValue) -> bool:
    """Read yes or no."""
    said = answer.text.strip().lower()
    if said in {"true", "on", "yes", "1"}:
        return True
    if said in {"false", "off", "no", "0"}:
        return False
    raise OptionError(f"{answer} is neither yes nor no. Allowed: true, false; type {answer.spelling}=true.")


def word(answer: OptionValue, noun: str) -> str:
    """Read a label without spaces."""
    said = answer.text.strip()
    if not re.fullmatch(r"[A-Za-z0-9._-]+", said):
        raise refusal(answer, f": {said!r} is not {noun}", "letters, digits, dots, hyphens and underscores", "default")
    return said
