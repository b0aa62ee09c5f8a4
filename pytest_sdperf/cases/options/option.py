"""One option of the suite, in the three places where it can be said."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "sdperf"


@dataclass(frozen=True)
class Option:
    """One option of the suite.

    Attributes:
        name: Without prefix, with hyphens: `batch-size`.
        group: Key of `GROUPS`.
        help: One or two sentences; ends with the default.
        metavar: Placeholder of the value; empty for a switch.
        short: Whether `--NAME` may stand for it (a name that other plugins commonly own may not).
        plugin: Module that is loaded as a plugin where the option is given, and not before; empty for none.
    """

    name: str
    group: str
    help: str
    metavar: str = ""
    short: bool = True
    plugin: str = ""

    @property
    def destination(self) -> str:
        """Name in the ini file and in pytest's option namespace: `sdperf_batch_size`."""
        return f"{PREFIX}_{self.name.replace('-', '_')}"

    @property
    def long(self) -> str:
        """The spelling that always works: `--sdperf-batch-size`."""
        return f"--{PREFIX}-{self.name}"
