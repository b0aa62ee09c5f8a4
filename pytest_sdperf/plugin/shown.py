"""The words that a person sees of one step, in as many columns as there are."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    """What is shown of one step.

    Attributes:
        what, far: `exporting sd15 unet` and `12 s of about 41 s`.
        front, rest: Of the whole run: `test 3 of 12` and `about 4.0 min left`.
        since_s: Since when it goes on.
        late: Whether half of its limit is over.
    """

    what: str
    far: str
    front: str = ""
    rest: str = ""
    since_s: float = 0.0
    late: bool = False

    @property
    def line(self) -> str:
        """The whole of it."""
        front = f"{self.front}: " if self.front else ""
        return f"{front}{self.what}: {self.far}{f'; {self.rest}' if self.rest else ''}"

    def within(self, width: int) -> str:
        """Return as much of it as a line has room for; how far it is comes first."""
        for front, rest in ((self.front, self.rest), (self.front, ""), ("", "")):
            line = _printable(Shown(self.what, self.far, front, rest).line)
            if _columns(line) <= width:
                return line
        far = _printable(f"...: {self.far}")
        return _cut(_printable(self.what), width - _columns(far)) + _cut(far, width)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _columns(text: str) -> int:
    """Return the columns of a terminal that a text takes, at most."""
    return sum(2 if unicodedata.east_asian_width(char) in "WFA" else 1 for char in text)


def _cut(text: str, columns: int) -> str:
    while _columns(text) > max(columns, 0):
        text = text[:-1]
    return text
