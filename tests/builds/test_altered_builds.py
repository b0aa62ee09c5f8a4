"""A build that is altered lies in the cache beside the one that is not, and is another one for every alteration."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_model import make_catalog

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.cases.registration import registrar_of
from pytest_sdperf.core.alteration import Alteration, BuildStage
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.engines.torch_eager import TorchEngine


class Negated(Alteration):
    """Negates every weight, as somebody's own alteration may."""

    about = "Every weight is negated."

    def __init__(self, name: str) -> None:
        self.name = name

    def stages(self, component):
        return (BuildStage.WEIGHTS,) if component == "unet" else ()

    def build(self, stage, source, folder):
        if self.name == "nothing":
            return False
        save_file({name: -array for name, array in load_file(source).items()}, folder / source.name)
        return True


def pytest_sdperf_register(catalog):
    for name in ("negated", "negated-too", "nothing"):
        catalog.add_alteration(Negated(name))


@pytest.fixture
def build(tmp_path):
    """Build the module of a component in this process; return the build, and what was said meanwhile."""
    said: list[str] = []
    catalog, cache = make_catalog(), Cache(tmp_path, size_bytes=10**9, say=said.append)
    with catalog.owned_by(registrar_of(sys.modules[__name__])):
        pytest_sdperf_register(catalog)
    builder = Builder(catalog, Settings(cache_dir=tmp_path, in_process=True), cache, say=said.append)

    def make(altered: str = "", component: str = "unet"):
        case = Case("tiny", component, "torch", "fp32", height=128, width=128)
        built = builder.build(case, component, engine=TorchEngine(), altered=altered)
        return built, said

    return make


def test_an_altered_build_is_an_entry_of_its_own(build):
    (plain, _), (negated, said) = build(), build("negated")
    assert "ALTERED negated into unet" in said
    assert len({plain.key, negated.key, build("negated-too")[0].key}) == 3
    before, after = load_file(plain.path), load_file(negated.path)
    assert all(np.array_equal(after[name], -array) for name, array in before.items())
    assert (build()[0], build("negated")[0].path) == (plain, negated.path)


def test_what_finds_nothing_to_alter_is_the_build_as_it_is(build):
    assert build("nothing")[0].key == build()[0].key


def test_a_component_that_it_does_not_alter_is_the_build_as_it_is(build):
    (plain, _), (other, said) = build(component="vae_decoder"), build("negated", "vae_decoder")
    assert other.key == plain.key
    assert "ALTERED" not in " ".join(said)
