"""What other roundings of a request's initial latents are called (`precision.roundings` says what they are for)."""

from __future__ import annotations

from collections.abc import Sequence

OTHERS = 4  # beside the one that is always there
_MARK = "#"


def labels(dtype: str) -> tuple[str, ...]:
    """Return what the other roundings in a dtype are called where a dtype is asked for."""
    return tuple(f"{dtype}{_MARK}{number}" for number in range(1, OTHERS + 1))


def parse(label: str) -> tuple[str, int]:
    """Return the dtype of a label and the number of its rounding; 0 is that of the latents as they are."""
    dtype, _, number = label.partition(_MARK)
    return dtype, int(number or 0)


def in_words(asked: Sequence[str]) -> str:
    """Spell labels: `float32, float16` or `float16 rounded in 4 other ways`."""
    plain = [label for label in asked if not parse(label)[1]]
    others = [parse(label)[0] for label in asked if parse(label)[1]]
    more = [f"{dtype} rounded in {others.count(dtype)} other ways" for dtype in dict.fromkeys(others)]
    return ", ".join([*plain, *more])
