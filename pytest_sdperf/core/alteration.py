"""What a plug-in may alter of a run on purpose: the contract of planted faults, and of whatever else tests the tests.

Standard library only at import time: workers import this under foreign interpreters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.device import Device, DeviceProbe

T = TypeVar("T")


class BuildStage(Enum):
    """Stages of a build after which its files can be altered."""

    WEIGHTS = "weights"
    EXPORT = "export"
    GRAPH = "graph"


class Alteration:
    """Alters a run at the places whose methods it overrides, and leaves everything else as it is.

    A run has one where its name was given as `--sdperf-plant=NAME`. Nothing of such a run is kept, and its exit status
    is never 0. What a case is compared with is not altered.

    Attributes:
        name: Its name.
        about: One sentence: what is altered.
        word: What a report begins with.
        shared: Whether what a case is compared with is altered too, because both use what is altered.
    """

    name: str = ""
    about: str = ""
    word: str = "ALTERED"
    shared: bool = False

    @property
    def title(self) -> str:
        """What the header of the run says; empty for nothing."""
        return f"{self.word} {self.name}: {self.about}" if self.name else ""

    @property
    def told(self) -> str:
        """What a report and a file of results say of it."""
        return self.title

    def refuses(self, device_kind: str) -> str:
        """Say why it makes no sense on a device of this kind, and what to type instead; empty where it does."""
        return ""

    # ------------------------------------------------------------------------------------------ in pytest's process

    def cases(self, choices: tuple[T, ...]) -> tuple[T, ...]:
        """Return the cases that a test is given, each with its id, in place of those that were chosen."""
        return choices

    def device(self, device: Device) -> Device:
        """Return the device that the run sees."""
        return device

    def probe(self, probe: DeviceProbe) -> DeviceProbe:
        """Return what reads the device, such as a wrapper of what does."""
        return probe

    def read_baseline(self, path: Path, read: Callable[[Path], T]) -> T:
        """Return what is read of a file of baselines, which may not exist; the file itself has to stay as it is.

        Args:
            path: The file.
            read: Reads such a file.
        """
        return read(path)

    def stages(self, component: str) -> tuple[BuildStage, ...]:
        """Return the stages of a component's build after which `build` alters its files."""
        return ()

    def conclusions(self, reports: Iterable[Any], *, status: int, unused: bool) -> tuple[str, ...]:
        """Return what the report says at the end.

        Args:
            reports: The `CaseReport` of every test.
            status: The exit status of the run, had it not been altered.
            unused: Whether the baseline holds cases that nothing measures any more.
        """
        return ()

    # ----------------------------------------------------------------------------------------- in a worker process

    def build(self, stage: BuildStage, source: Path, folder: Path) -> bool:
        """Write what stands in place of a file that a build made; the cache has it beside the one without.

        Args:
            stage: What the build has come to.
            source: `model.onnx`, with its data beside it, or a safetensors file.
            folder: Takes a file of the same name.

        Returns:
            False where nothing was to be altered, and nothing was written.
        """
        return False

    def libraries(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a whole request loads its components and draws."""
        return contextlib.nullcontext()

    def loaded(self, component: str, runner: Runner) -> Runner:
        """Return a loaded component, such as a wrapper of it."""
        return runner

    def answer(self, answer: Any, channel: Any) -> Any:
        """Return what a task that executes a case answers.

        Args:
            answer: JSON data.
            channel: The line to the suite; `channel.write` sends text.
        """
        return answer
