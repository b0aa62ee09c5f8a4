"""How an engine with its options is spelled: only together do they say what runs."""

from __future__ import annotations

from collections.abc import Iterable


def engine_label(name: str, options: Iterable[tuple[str, str]]) -> str:
    """Return `ort-cpu:threads=1`, or the name alone where there are no options."""
    listed = ",".join(f"{option}={value}" for option, value in options)
    return f"{name}:{listed}" if listed else name
