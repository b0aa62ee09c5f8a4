"""What a worker process can be asked to do: one task per file, `run(arguments, context) -> answer`.

Arguments and answer are plain JSON data; arrays and models travel as files in `context.out_dir`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.tasks.sampling.phases import PhaseListener


@dataclass(frozen=True)
class TaskContext:
    """What a task is given besides its arguments.

    Attributes:
        out_dir: Folder for the files it makes.
        catalog: Everything that the registrars of the job registered.
        listener: Told when a phase begins and ends.
        say: Sends one line of progress to the suite.
    """

    out_dir: Path
    catalog: Catalog
    listener: PhaseListener
    say: Callable[[str], None]
