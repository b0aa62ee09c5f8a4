"""One fault that can be planted: what it is in the world, where it goes in, and how it must be found.

Standard library only at import time: workers import this under foreign interpreters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

# How a run may have to end because of a fault: a verdict, or what ends a test or a run without one.
FAILED, REFUSED, UNUSED = "FAILED", "REFUSED", "UNUSED"
NUMBER = "#"  # in words: a number, which differs from machine to machine
ANYTHING = "..."


class FaultStage(Enum):
    """Where along the data flow a fault goes in. Nothing behind that place knows that it was planted."""

    WEIGHTS = "the weights, behind their file or the export"
    EXPORT = "the exported graph, before it is optimized"
    GRAPH = "the optimized graph"
    RUNNER = "the loaded component, in its worker process"
    LIBRARY = "the libraries with which a worker process draws, and so into the reference as well"
    ANSWER = "what the worker process answers"
    READINGS = "the readings of the device"
    ENERGY = "the energy counter of the device"
    MACHINE = "what the machine says of itself"
    BASELINE = "the stored baseline, as it is read"
    CASES = "the cases of the tests, as they are collected"


class NowhereError(Exception):
    """There is nothing here that the fault could change: the graph of another component, one less optimized, ..."""


@dataclass(frozen=True)
class Detection:
    """How a fault must be found.

    Attributes:
        by: The suite that finds it: `agreement`, `fusions`, `pipelines` or `semantics`.
        verdict: `FAILED`, `REGRESSED` or `INVALID`; `REFUSED` where the run does not begin, `UNUSED` where it
            fails because of a stored case.
        words: What is said, whole. `#` stands for a number and `...` for any text.
        code: The reason code of the verdict, or the level of the comparison (`component`, `steps`, `image`).
    """

    by: str
    verdict: str
    words: str
    code: str = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The words as a regular expression; white space may be of any kind."""
        text = re.escape(" ".join(self.words.split())).replace(r"\ ", r"\s+")
        text = text.replace(re.escape(ANYTHING), r".*?").replace(re.escape(NUMBER), r"[-+]?[\d.,]+(?:e[-+]?\d+)?")
        return re.compile(text, re.DOTALL)

    @property
    def status(self) -> int:
        """The exit status that it gives a run in which nothing else is wrong."""
        return {"INVALID": 10, REFUSED: 4, UNUSED: 12}.get(self.verdict, 1)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: `area-what`, such as `graph-query-and-key-exchanged`.
        about: One sentence: what is wrong, as it happens in the world.
        place: Where it goes in.
        change: Plants it; what it takes and returns depends on the place, see `planting`.
        found: How it must be found.
        component: The component that it goes into; empty for every one.
        options: What to type beside it, so that the suite looks where it is.
        against_baseline: Whether it shows only against a baseline: one of the same options has to be accepted before.
        on_gpu: Whether only the readings of a GPU can have it.
    """

    name: str
    about: str
    place: FaultStage
    change: Callable[..., Any]
    found: Detection
    component: str = ""
    options: str = ""
    against_baseline: bool = False
    on_gpu: bool = False

    @property
    def area(self) -> str:
        """The first word of the name."""
        return self.name.partition("-")[0]

    @property
    def command(self) -> str:
        """What to type to see it found."""
        options = f" {self.options}" if self.options else ""
        return f"pytest suites/test_{self.found.by}.py{options} --plant={self.name}"

    @property
    def preparation(self) -> str:
        """What to type before, where it shows only against a baseline; else empty."""
        options = f" {self.options}" if self.options else ""
        if not self.against_baseline:
            return ""
        # The reason is for a machine that is never quiet; the fault is found on it too.
        return f"pytest suites/test_{self.found.by}.py{options} --update-baselines --reason=prepared"
