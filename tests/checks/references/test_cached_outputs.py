"""Outputs that are computed once: what another process removes meanwhile is computed again."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.checks.references.stored import Stored
from pytest_sdperf.core.files.arrays import save_arrays

KEYS = {"float32": "reference-0", "float16": "reference-1"}


@pytest.fixture
def compute(tmp_path):
    """Compute what is asked for, and note it."""
    asked = []

    def run(names):
        asked.append(list(names))
        folder = tmp_path / f"run-{len(asked)}"
        folder.mkdir()
        return {name: str(save_arrays(folder / f"{name}.npz", {"out": np.array([len(name)])})) for name in names}

    run.asked = asked
    return run


def cache_of(tmp_path):
    return Cache(tmp_path / "cache", size_bytes=10**9)


def test_what_is_there_is_not_computed(tmp_path, compute):
    Stored(cache_of(tmp_path), KEYS, compute).read()
    found = Stored(cache_of(tmp_path), KEYS, compute).read()
    assert {name: arrays["out"].tolist() for name, arrays in found.items()} == {"float32": [7], "float16": [7]}
    assert compute.asked == [["float32", "float16"]]


def test_what_somebody_removed_meanwhile_is_computed_again(tmp_path, compute):
    Stored(cache_of(tmp_path), {"float32": KEYS["float32"]}, compute).read()
    mine, other = cache_of(tmp_path), cache_of(tmp_path)

    def remove_and_compute(names):
        if len(compute.asked) == 1:
            assert other.prune(0) == ()  # it is in use
            shutil.rmtree(tmp_path / "cache" / "entries")  # as somebody does who makes room by hand
        return compute(names)

    found = Stored(mine, KEYS, remove_and_compute).read()
    assert sorted(found) == sorted(KEYS)
    assert compute.asked == [["float32"], ["float16"], ["float32"]]
