"""What an engine loads of one component: how large it is, and what making it took.

Standard library only: these travel in a `Measurement`, which a worker's modules import.
"""

from __future__ import annotations

from dataclasses import dataclass

COMPILE = "compile"


@dataclass(frozen=True)
class Built:
    """Where and when something was built.

    Attributes:
        run: Names the run that built it; empty if unknown.
        host: The processor that built it, as a device's slug (`cpu-amd-epyc-2c`).
        commit: Commit of the project under test; empty if unknown.
        date: UTC, to the minute.
    """

    run: str = ""
    host: str = ""
    commit: str = ""
    date: str = ""


UNKNOWN = Built()


@dataclass(frozen=True)
class BuildStep:
    """One step of a build, with the numbers of when it was made.

    Attributes:
        name: `weights`, `export`, `import`, `fuse-native`, `fuse-ort`, `lower` or `compile`.
        seconds: What it took.
        cpu_seconds: How long cores computed for it; None if nobody counted.
        host, commit, date: Where and when it was made, as in `Built`.
        now: Whether the run that measured made it, on its own machine; else it came from the cache.
    """

    name: str
    seconds: float
    cpu_seconds: float | None = None
    host: str = ""
    commit: str = ""
    date: str = ""
    now: bool = False


@dataclass(frozen=True)
class Artifact:
    """The files of one component.

    Attributes:
        model_bytes: Size of the graph or the weights, external data included.
        compiled_bytes: Size of what the engine compiled of it; None where it compiles nothing ahead.
        steps: How it was made, in order.
    """

    model_bytes: int
    compiled_bytes: int | None = None
    steps: tuple[BuildStep, ...] = ()
