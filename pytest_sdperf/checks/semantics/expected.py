"""What the weights that come with the package draw, as diffusers' own pipeline drew it when they were added.

A reference is drawn by the libraries that are installed, as an engine's pictures are: what both draw wrongly agrees.
`expected.json` does not change with them. `training/expecting.py` wrote it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.checks.semantics.scoring import Score

FILE = Path(__file__).parent / "expected.json"


@dataclass(frozen=True)
class Request:
    """What decides the pictures of the fixed prompts, but for the libraries.

    Attributes:
        weights: Identity of the weights, as in a case.
        steps: Denoising steps.
        scheduler: Its name.
    """

    weights: str
    steps: int
    scheduler: str


@dataclass(frozen=True)
class Expected:
    """The scores of the fixed prompts, in their order.

    Attributes:
        request: What they are the scores of.
        versions: Libraries that drew them.
        scores: One per prompt.
    """

    request: Request
    versions: Mapping[str, str]
    scores: tuple[Score, ...]


@functools.cache
def expected() -> Expected:
    """Return what is stored."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    scores = (
        Score(tuple(one["wrong"]), one["clearness"], tuple((x, y) for x, y in one["places"])) for one in data["scores"]
    )
    return Expected(Request(**data["request"]), data["versions"], tuple(scores))


def expected_of(request: Request) -> Expected | None:
    """Return what is stored of a request; None of another one, of which nothing is known."""
    stored = expected()
    return stored if stored.request == request else None
