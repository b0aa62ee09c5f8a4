"""A small terminal: what a person sees of bytes that a run wrote."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios

_PARTS = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|\x1b([78D])|([\r\n])|([^\x1b\r\n]+)")


class Screen:
    """Understands what pytest and we write, and refuses everything else.

    Attributes:
        rows: The text of all rows, those that were scrolled away too.
        row: That of the cursor.
    """

    def __init__(self, width: int = 100, height: int = 10) -> None:
        self.rows, self.row, self._column, self._saved = [""], 0, 0, (0, 0)
        self._width, self._height = width, height

    @property
    def _top(self) -> int:
        return max(0, len(self.rows) - self._height)

    def feed(self, text: str) -> None:
        """Take output."""
        end = 0
        for part in _PARTS.finditer(text):
            assert part.start() == end, repr(text[end : part.end()])
            end = part.end()
            self._take(*part.groups())
        assert end == len(text), repr(text[end:])

    def _take(self, numbers, command, escape, control, printed):
        if command == "m":
            return
        if command == "J":
            assert numbers == ""
            self.rows[self.row :] = [self.rows[self.row][: self._column], *[""] * (len(self.rows) - self.row - 1)]
        elif command == "A":
            self.row = max(self.row - 1, self._top)
        elif command == "B":
            assert self.row + 1 < len(self.rows), "there is no row below"
            self.row += 1
        elif escape == "7":
            self._saved = (self.row - self._top, self._column)
        elif escape == "8":
            self.row, self._column = self._top + self._saved[0], self._saved[1]
        elif escape == "D" or control == "\n":
            self.row += 1
            self.rows += [""] * (self.row + 1 - len(self.rows))
        elif control == "\r":
            self._column = 0
        else:
            assert printed is not None, (numbers, command)
            self._print(printed)

    def _print(self, text):
        for char in text:
            if self._column == self._width:
                self._take(None, None, None, "\n", None)
                self._column = 0
            row = self.rows[self.row].ljust(self._column)
            self.rows[self.row] = row[: self._column] + char + row[self._column + 1 :]
            self._column += 1


def statuses(text: str, **size: int) -> list[str]:
    """Return what stood in the row below the cursor, each time that a status line had been drawn."""
    screen, seen = Screen(**size), []
    for part in text.split("\x1b8")[:-1]:
        screen.feed(f"{part}\x1b8")
        assert all(row == "" for row in screen.rows[screen.row + 2 :])
        seen.append(screen.rows[screen.row + 1])
    return seen


def on_terminal(command: list[str], *, width: int = 100, **env: str) -> str:
    """Run a command in a terminal of its own and return what it wrote there."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, width, 0, 0))
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", **env}
    ) as process:
        os.close(theirs)
        told = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that the other side is closed
                break
            if not part:
                break
            told += part
        process.wait()
    os.close(ours)
    return told.decode()
