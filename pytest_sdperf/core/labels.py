"""How an engine with its options, and a case, are called in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_sdperf.core.values import Case


def engine_label(name: str, options: Iterable[tuple[str, str]]) -> str:
    """Return `ort-cpu:threads=1`, or the name alone where there are no options; only together they say what runs."""
    listed = ",".join(f"{option}={value}" for option, value in options)
    return f"{name}:{listed}" if listed else name


def in_words(case: Case) -> str:
    """Return `sd15 unet at fp16 on ort-cuda`."""
    return f"{case.model} {case.component} at {case.optimization} on {case.engine}"
