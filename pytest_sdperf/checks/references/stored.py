"""References in the cache, each under a name and the key of all that decides what it holds: they are computed once."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.core.files.arrays import Arrays, load_arrays
from pytest_sdperf.core.values import Build

Compute = Callable[[Sequence[str]], Mapping[str, Any]]  # names -> path of an npz file by name

_FILE = "outputs.npz"


@dataclasses.dataclass(frozen=True)
class Stored:
    """References, whether they are there already or not.

    Attributes:
        cache: Where they are kept.
        keys: Name -> key in the cache.
        compute: Computes those of some names, and returns their files, which are taken away.
    """

    cache: Cache
    keys: Mapping[str, str]
    compute: Compute

    @classmethod
    def of(
        cls, runner: CaseRunner, variants: Mapping[str, Mapping[str, Any]], compute: Compute, **computing: Any
    ) -> Self:
        """Return what a runner computes for others to be compared with; the arguments are those of `reference_keys`."""
        return cls(runner.context.cache, reference_keys(runner, variants, **computing), compute)

    def missing(self) -> tuple[str, ...]:
        """Return the names of those that have yet to be computed."""
        return tuple(name for name, key in self.keys.items() if self.cache.find(key) is None)

    def read(self) -> dict[str, Arrays]:
        """Return arrays by output name, under each name; what is not there yet is computed at once."""
        missing = self.missing()
        made = self.compute(missing) if missing else {}
        return {name: load_arrays(self._entry(name, made) / _FILE) for name in self.keys}

    def _entry(self, name: str, made: Mapping[str, Any]) -> Path:
        def make(folder: Path) -> dict[str, Any]:
            # What was there may have been removed since.
            shutil.move(made.get(name) or self.compute([name])[name], folder / _FILE)
            return {}

        return self.cache.get_or_make(self.keys[name], make).path


TORCH = ("torch", "diffusers", "transformers")


def reference_keys(
    runner: CaseRunner,
    variants: Mapping[str, Mapping[str, Any]],
    *,
    code: Sequence[str],
    libraries: Sequence[str] = TORCH,
    builds: Mapping[str, Build] | None = None,
) -> dict[str, str]:
    """Return the keys in the cache of what a runner computes for others to be compared with.

    Args:
        runner: What computes it, altered no more than what it is compared with shares (`CaseRunner.as_reference`).
        variants: Name -> what else decides what is computed under that name.
        code: Modules that compute it.
        libraries: Libraries that compute it, by import name.
        builds: Other builds than those of its case.
    """
    if runner.altered != runner.as_reference(runner.case, runner.request).altered:
        raise ValueError(f"{runner.altered} alters what is to be a reference; make it with as_reference()")
    parts = {
        "case": runner.case.key,
        "builds": {name: build.key for name, build in (runner.builds() if builds is None else builds).items()},
        "fed": runner.fed(),
        **({"altered": runner.altered} if runner.altered else {}),
        "device": runner.context.device.name,
        "code": source_hash(*code),
        "versions": library_versions(*libraries),
    }
    return {name: f"reference-{content_key({**parts, **more})}" for name, more in variants.items()}
