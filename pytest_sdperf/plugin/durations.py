"""How long steps and tests took when they last ended on this device."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import filelock

from pytest_sdperf.baselines.files import pretty, write_atomically
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.machine.gpu_facts import to_slug
from pytest_sdperf.plugin.plan.recorded import device_of
from pytest_sdperf.plugin.run import Run

# A quicker step is never shown, and of a run without a longer one nothing is kept.
LONG_S = 1.0
_MOST = 5000


class Durations:
    """`durations/DEVICE.json` of the state folder: seconds by what took them, the latest last."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._now: dict[str, float] = {}

    @functools.cached_property
    def _path(self) -> Path:
        device = device_of(self._run)
        slug = device.slug if device else to_slug(self._run.settings.gpu)
        return self._run.settings.state_dir / "durations" / f"{slug}.json"

    @functools.cached_property
    def _before(self) -> dict[str, float]:
        return self._read()

    def _read(self) -> dict[str, float]:
        """Return what is kept; a file that cannot be read only costs an estimate."""
        with contextlib.suppress(OSError, ValueError):
            return strict_json.convert(strict_json.read(self._path), dict[str, float])
        return {}

    def last_s(self, key: str) -> float | None:
        """Return how long something took last time; None where nobody knows."""
        return self._now.get(key, self._before.get(key))

    def took(self, key: str, seconds: float) -> None:
        """Remember how long it took now."""
        self._now[key] = seconds

    def keep(self) -> None:
        """Write what is remembered, beside what other processes wrote; nothing of a run that is altered on purpose."""
        if self._run.settings.altered or max(self._now.values(), default=0.0) < LONG_S:
            return
        with contextlib.suppress(OSError):  # only an estimate is lost
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(self._path.with_suffix(".lock")):
                kept = {name: one for name, one in self._read().items() if name not in self._now}
                rounded = {name: round(one, 3) for name, one in self._now.items()}
                write_atomically(self._path, pretty(dict([*kept.items(), *rounded.items()][-_MOST:])) + "\n")
