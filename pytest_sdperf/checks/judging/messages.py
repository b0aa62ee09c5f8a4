"""Words that the sentences of verdicts share."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.core.values import Case

_SPELLED = {"unet": "UNet", "vae": "VAE"}


def opening(case: Case) -> str:
    """Return how a sentence begins that is about a case: `UNet`, `VAE decoder`, `Pipeline`."""
    return capital(component(case.component))


def capital(words: str) -> str:
    """Return words with a capital at the beginning."""
    return words[:1].upper() + words[1:]


def component(name: str) -> str:
    """Return how a sentence calls a component: `UNet`, `VAE decoder`, `pipeline`."""
    return " ".join(_SPELLED.get(word, word) for word in name.split("_"))


def version_changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """Return what differs between two subjects, one text per name: `onnxruntime 1.31.1 -> 1.32.0`."""
    return tuple(
        f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def since(stored: StoredCase | None, new: Mapping[str, str]) -> str:
    """Return the part of a sentence that says what changed since the newest stored session; empty if nothing did."""
    changes = version_changes(stored.last.subject, new) if stored is not None and stored.sessions else ()
    return f"; since then: {', '.join(changes)}" if changes else ""
