"""What a reference in the cache is known by: everything that decides what it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.core.values import Build

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
