"""One line of the terminal report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pytest_sdperf.core.values.outcomes import Outcome

Style = Literal["bold", "red", "yellow", "green", "cyan"]

NARROWEST = 60
_LABEL = 11

STYLES: dict[Outcome, tuple[Style, ...]] = {
    Outcome.FAILED: ("red",),
    Outcome.REGRESSED: ("red",),
    Outcome.INVALID: ("red",),
    Outcome.INCONCLUSIVE: ("yellow",),
    Outcome.NOT_MEASURED: ("yellow",),
    Outcome.GAP: ("yellow",),
    Outcome.IMPROVED: ("green",),
}


@dataclass(frozen=True)
class Line:
    """Text and how a terminal may show it; the text alone says everything.

    Attributes:
        text: Without a line break.
        styles: Markup flags of pytest's terminal writer.
    """

    text: str = ""
    styles: tuple[Style, ...] = ()

    @property
    def markup(self) -> dict[str, bool]:
        """Keyword arguments for `TerminalReporter.write_line`."""
        return dict.fromkeys(self.styles, True)


def labelled(label: str, text: str, *, width: int) -> Iterator[Line]:
    """Yield a paragraph with a label to its left."""
    return wrapped(text, width=width, first=f"{label:<{_LABEL}}", rest=" " * _LABEL)


def wrapped(
    text: str, *, width: int, first: str = "", rest: str = "", styles: tuple[Style, ...] = ()
) -> Iterator[Line]:
    """Yield text broken between words, each of its own lines separately; a word longer than a line stays whole."""
    for number, part in enumerate(text.splitlines() or [""]):
        lines = textwrap.wrap(
            part,
            max(width, NARROWEST),
            initial_indent=rest if number else first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines or [rest.rstrip()]:
            yield Line(line, styles)
