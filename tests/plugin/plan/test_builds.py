"""Which steps of a build the cache holds, and what the others take of the disk."""

from __future__ import annotations

import pytest
from door_toys import toy_catalog
from sample_values import case

from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.exporter import TorchExporter
from pytest_sdperf.builds.inventory import Inventory, NotBuiltError
from pytest_sdperf.plugin.plan.builds import Builds

TOY = {"model": "sd15-thin", "fuser": "native"}


class Steps:
    """A builder of three steps, whose keys are as simple as can be."""

    def __init__(self, cache) -> None:
        self._cache = cache

    def exporter(self, case):
        return TorchExporter(toy_catalog(), must_not_build, must_not_build)

    def build(self, case, component, *, engine):
        names = ["weights", "export", f"fuse-{case.fuser}"][: 1 if engine and engine.consumes == "module" else 3]
        for name in names:
            place = case.optimization if name.startswith("fuse") else component
            self._cache.get_or_make(f"{name}-{place}", must_not_build)

    def expected_counts(self, model, component, optimization):
        self._cache.get_or_make(f"expect-{model}", must_not_build)


def must_not_build(*what):
    raise AssertionError(what)


@pytest.fixture
def fill(tmp_path):
    def write(folder):
        (folder / "model").write_bytes(b"12345678")
        return {"seconds": 33.0}

    return lambda *keys: [Cache(tmp_path, size_bytes=10**9).get_or_make(key, write) for key in keys]


@pytest.fixture
def builds(tmp_path):
    inventory = Inventory(tmp_path, size_bytes=10**9)
    return Builds(Steps(inventory), inventory, toy_catalog())


def told(steps):
    return [(step.kind, step.entry is not None) for step in steps]


def steps_of(builds, optimization, engine="ort-cpu"):
    catalog = toy_catalog()
    return builds.of(case(**TOY, engine=engine, optimization=optimization), catalog.engines.get(engine))


def test_what_is_there_is_found_up_to_the_first_step_that_is_not(builds, fill):
    assert told(steps_of(builds, "fp16")) == [("weights", False), ("export", False), ("fuse-native", False)]
    fill("weights-unet", "export-unet")
    assert told(steps_of(builds, "fp16")) == [("weights", True), ("export", True), ("fuse-native", False)]
    fill("fuse-native-fp16")
    assert told(steps_of(builds, "fp16")) == [("weights", True), ("export", True), ("fuse-native", True)]
    assert told(steps_of(builds, "fmha")) == [("weights", True), ("export", True), ("fuse-native", False)]


def test_what_is_there_has_its_size_and_what_is_not_that_of_its_parameters(builds, fill):
    fill("weights-unet")
    parameters = toy_catalog().models.get("sd15-thin").parameters("unet")
    assert [step.size_bytes for step in steps_of(builds, "fp16")] == [8, 4 * parameters, 2 * parameters]
    assert [step.size_bytes for step in steps_of(builds, "fp32")] == [8, 4 * parameters]


def test_where_nobody_counted_parameters_no_size_is_known(builds, fill, monkeypatch):
    fill("weights-unet")
    monkeypatch.setattr(type(builds.catalog.models.get("sd15-thin")), "parameters", lambda model, component: None)
    assert [step.size_bytes for step in steps_of(builds, "fp16")] == [8, None, None]


def test_an_engine_of_modules_needs_weights_alone(builds):
    assert told(steps_of(builds, "fp16", engine="torch")) == [("weights", False)]


def test_cases_share_steps_where_nothing_about_them_differs(builds):
    fp16, fmha = steps_of(builds, "fp16"), steps_of(builds, "fmha")
    assert [step.place for step in fp16[:2]] == [step.place for step in fmha[:2]]
    assert fp16[2].place != fmha[2].place
    catalog = toy_catalog()
    larger = builds.of(case(**TOY, optimization="fp16", batch_size=8), catalog.engines.get("ort-cpu"))
    assert larger[0].place == fp16[0].place
    assert larger[1].place != fp16[1].place
    dynamic = [
        builds.of(case(**TOY, optimization="fp16", batch_size=size, shapes="dynamic"), catalog.engines.get("ort-cpu"))
        for size in (1, 8)
    ]
    assert [step.place for step in dynamic[0]] == [step.place for step in dynamic[1]]


def test_without_weights_a_graph_has_no_size_and_no_step_that_draws_them(builds):
    steps = builds.of(case(**TOY, engine="", optimization="fp16", weights="none"), None)
    assert [step.kind for step in steps] == ["export", "fuse-native"]
    assert [step.size_bytes for step in steps] == [0, 0]


def test_nothing_is_looked_up_where_that_would_fetch_something(builds, fill):
    fill("weights-unet", "export-unet", "fuse-native-fp16")
    blind = Builds(builds.builder, builds.inventory, toy_catalog(), blind=True)
    assert told(steps_of(blind, "fp16")) == [("weights", False), ("export", False), ("fuse-native", False)]


def test_derived_counts_are_a_step_too(builds, fill):
    one = case(**TOY, engine="", optimization="fp16")
    assert builds.expectation(one).entry is None
    fill("expect-sd15-thin")
    assert builds.expectation(one).entry is not None


def test_an_inventory_looks_at_sizes_and_builds_nothing(tmp_path, fill):
    (entry,) = fill("export-1")
    inventory = Inventory(tmp_path, size_bytes=10**9)
    assert inventory.get_or_make("export-1", must_not_build).digest == entry.digest
    assert list(inventory.seen) == ["export"]
    (entry.path / "model").write_bytes(b"1234")
    with pytest.raises(NotBuiltError) as caught:
        inventory.get_or_make("export-1", must_not_build)
    assert (str(caught.value), caught.value.step) == ("the cache does not hold export-1", "export")
