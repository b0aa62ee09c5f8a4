"""What every case of a session shares: the device, the builds, and where things are put."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.compilations import Compilations
from pytest_sdperf.builds.execution.device_lock import DeviceLock
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.device import Device, DeviceProbe
from pytest_sdperf.core.settings import Settings


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What every case of a session shares.

    Attributes:
        settings: The command line.
        catalog: Everything that was registered.
        device: Where cases run.
        probe: Reads the device's state.
        builder: Builds components through the cache.
        cache: Artifacts and references.
        folder: Scratch folder of this session.
        say: Prints one line of progress.
        run: Names the run.
    """

    settings: Settings
    catalog: Catalog
    device: Device
    probe: DeviceProbe
    builder: Builder
    cache: Cache
    folder: Path
    say: Callable[[str], None]
    run: str = ""
    _numbers: itertools.count[int] = dataclasses.field(default_factory=itertools.count)

    @functools.cached_property
    def compilations(self) -> Compilations:
        """What the engines of this session compiled."""
        return Compilations(self.cache, self.settings, self.device, self.turns)

    @functools.cached_property
    def turns(self) -> DeviceLock:
        """The turns of this process on the device."""
        return DeviceLock(self.device, self.settings.state_dir, run=self.run, say=self.say)

    def new_folder(self, name: str) -> Path:
        """Return a new scratch folder for one worker process."""
        return Path(tempfile.mkdtemp(prefix=f"{next(self._numbers):04d}-{name}-", dir=self.folder))
