"""Which cases are built before the first test where there is no room for the builds of all of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from door_toys import toy_catalog
from hypothesis import given
from hypothesis import strategies as st
from sample_values import case

from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.files import disk
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.plugin.plan import space
from pytest_sdperf.plugin.plan.builds import PlannedStep
from pytest_sdperf.plugin.plan.space import Space, room_bytes, space_of

GB = 10**9
WEIGHTS, EXPORT = (PlannedStep(kind, (kind,), size_bytes=4 * GB) for kind in ("weights", "export"))
OPTIMIZATIONS = ("fp16", "fmha", "group-norm")


def fused(optimization, size=2 * GB):
    return PlannedStep("fuse-native", ("fuse", optimization), size_bytes=size)


class Builds:
    """Tells steps that tests name."""

    def __init__(self, steps):
        self._steps = steps

    def of(self, case, engine):
        found = self._steps[case.optimization]
        if isinstance(found, Exception):
            raise found
        return found


def cases(optimizations=OPTIMIZATIONS):
    return [case(model="sd15-thin", engine="ort-cpu", optimization=optimization) for optimization in optimizations]


@pytest.fixture
def found(tmp_path, monkeypatch):
    def look(limit_gb, steps=None, optimizations=OPTIMIZATIONS, *, free_gb=1000):
        monkeypatch.setattr(space, "free_bytes", lambda folder: free_gb * GB)
        settings = Settings(cache_dir=tmp_path / "cache", cache_size_bytes=int(limit_gb * GB))
        catalog = toy_catalog()
        run = SimpleNamespace(settings=settings, catalog=catalog, request_of=lambda case: case)
        steps = steps or {optimization: (WEIGHTS, EXPORT, fused(optimization)) for optimization in optimizations}
        return space_of(cases(optimizations), Builds(steps), run)

    return look


def test_where_everything_fits_everything_is_built_ahead(found):
    # 8 GB of weights and export, three optimizations of 2 GB, and a quarter more, because nobody has measured it.
    whole = found(18)
    assert (whole.is_tight, whole.whole_bytes, whole.ahead) == (False, 17.5 * GB, frozenset(cases()))
    assert (whole.keep_bytes, whole.begin_bytes) == (18 * GB, 0.5 * GB)


def test_where_it_does_not_what_fits_beside_the_largest_case_is(found):
    tight = found(17)
    assert tight.is_tight
    assert tight.keep_bytes == 4.5 * GB
    assert tight.ahead == frozenset()
    more = found(
        30,
        {optimization: (WEIGHTS, EXPORT, fused(optimization, 8 * GB)) for optimization in OPTIMIZATIONS},
        OPTIMIZATIONS,
    )
    assert (more.is_tight, more.whole_bytes, more.keep_bytes) == (True, 40 * GB, 10 * GB)
    small = {"fp16": (fused("fp16"),), "fmha": (fused("fmha"),), "group-norm": (fused("group-norm", 4 * GB),)}
    some = found(9.9, small)
    assert (some.keep_bytes, some.ahead) == (4.9 * GB, frozenset(cases()[:1]))
    assert some.begin_bytes == pytest.approx(2.4 * GB)


def test_a_full_disk_is_a_limit_too(found):
    assert not found(100, free_gb=20).is_tight
    assert found(100, free_gb=18).is_tight


def test_what_the_cache_holds_takes_what_it_takes_and_is_kept(found, tmp_path):
    cache = Cache(tmp_path / "cache", size_bytes=GB)
    entry = cache.get_or_make("weights-a", lambda folder: {"wrote": (folder / "data").write_bytes(bytes(1000))})
    held = PlannedStep("weights", ("weights",), entry, 4 * GB)
    whole = found(18, {optimization: (held, EXPORT, fused(optimization)) for optimization in OPTIMIZATIONS})
    assert whole.whole_bytes == 16.5 * GB
    assert whole.needed == {"weights-a"}
    assert whole.begin_bytes == 18 * GB - 12.5 * GB


def test_a_case_that_cannot_be_built_or_told_takes_no_room(found):
    unknown = PlannedStep("weights", ("weights",))
    whole = found(1, {"fp16": BuildError("no"), "fmha": (unknown,), "group-norm": ()})
    assert (whole.is_tight, whole.whole_bytes, len(whole.ahead)) == (False, 0, 3)


def test_the_room_of_a_folder_that_holds_something(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(bytes(500))
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: usage)
    assert room_bytes(tmp_path, 10**9) == 500 + 950
    assert room_bytes(tmp_path / "not" / "there", 10**9) == 950
    assert room_bytes(tmp_path, 700) == 700


def test_what_becomes_of_builds_is_told(tmp_path):
    told = Space(frozenset(cases()[:1]), 3, 76 * GB, 60 * GB, 40 * GB, 30 * GB).told(tmp_path)
    assert told == (
        f"the cache {tmp_path} has room for 60.0 GB, and all builds together take about 76.0 GB: 2 cases of 3 are "
        "built when their tests begin, and builds go after their last test"
    )


@given(st.lists(st.integers(1, 50), min_size=1, max_size=3), st.integers(1, 200))
def test_what_is_built_ahead_leaves_room_for_any_case(sizes, limit):
    optimizations = OPTIMIZATIONS[: len(sizes)]
    steps = {
        optimization: (fused(optimization, size),) for optimization, size in zip(optimizations, sizes, strict=True)
    }
    settings = Settings(cache_dir=Path("nothing is here"), cache_size_bytes=limit)
    run = SimpleNamespace(settings=settings, catalog=toy_catalog(), request_of=lambda case: case)
    found = space_of(cases(optimizations), Builds(steps), run)
    ahead = sum(
        1.25 * size
        for optimization, size in zip(optimizations, sizes, strict=True)
        if cases([optimization])[0] in found.ahead
    )
    if found.is_tight:
        assert ahead + max(sizes) * 1.25 <= limit or not found.ahead
    else:
        assert len(found.ahead) == len(sizes)
