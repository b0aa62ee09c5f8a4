"""One option of the suite, in the places where it can be said, and what was said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pytest_sdperf.cases.options.reading import SettingsParser

PREFIX = "sdperf"


@dataclass(frozen=True)
class OptionValue:
    """What the user said about one option.

    Attributes:
        text: The value as text.
        spelling: Where it was said, ready to be followed by `=text`: `--batch-size`, `sdperf_batch_size`, ...
    """

    text: str
    spelling: str

    def __str__(self) -> str:
        """Quote the answer as it was given; on the command line a switch has no value."""
        return self.spelling if self.text == "true" and self.typed else f"{self.spelling}={self.text}"

    @property
    def typed(self) -> bool:
        """Whether it is a flag of the command line, and in no file."""
        return self.spelling.startswith("--")


Parse: TypeAlias = "Callable[[OptionValue, SettingsParser], Any]"


@dataclass(frozen=True)
class Option:
    """One option of the suite; `conflicts.py` says what it cannot be combined with.

    Attributes:
        name: Without prefix, with hyphens: `batch-size`.
        metavar: Placeholder of the value; empty for a switch.
        parse: Turns what was said into the value, and refuses what makes no sense.
        help: One or two sentences; ends with the default.
        sets: Fields of the settings that take the value, separated by spaces; `selection.` and `other.` begin those of
            `Selection` and `OtherSide`. Several take one each of a tuple. Empty for the one that has the option's name.
        default: Makes the value where nothing is said; None leaves it to the settings.
        flag: Whether it is an option of the command line too; else only of configuration files.
        common: Whether other plugins commonly own its name, so that `--NAME` may not stand for it.
        page: Page of the manual that says most of it; without one the page of all options does.
        plugin: Module that is loaded as a plugin where the option is given, and not before; empty for none.
    """

    name: str
    metavar: str
    parse: Parse
    help: str
    sets: str = ""
    default: Callable[[SettingsParser], Any] | None = None
    flag: bool = True
    common: bool = False
    page: str = "options"
    plugin: str = ""

    @property
    def short(self) -> bool:
        """Whether `--NAME` may stand for it."""
        return self.flag and not self.common

    @property
    def destination(self) -> str:
        """Name in the ini file and in pytest's option namespace: `sdperf_batch_size`."""
        return f"{PREFIX}_{self.name.replace('-', '_')}"

    @property
    def long(self) -> str:
        """The spelling that always works on a command line: `--sdperf-batch-size`, or `-o sdperf_opset`."""
        return f"--{PREFIX}-{self.name}" if self.flag else f"-o {self.destination}"

    @property
    def usage(self) -> str:
        """How it is typed, with its value: `--sdperf-batch-size=NUMBERS`."""
        value = self.metavar or ("" if self.flag else "true")
        return f"{self.long}={value}" if value else self.long

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The part of the settings and the name of each field that it sets; of `Settings` itself the part is empty."""
        names = (self.sets or self.name.replace("-", "_")).split()
        return tuple((part, name) for part, _, name in (field.rpartition(".") for field in names))


def plain(parse: Callable[..., Any], *words: Any) -> Parse:
    """Return what parses an answer by itself, whatever else was said; `words` are its further arguments."""
    return lambda answer, _: parse(answer, *words)
