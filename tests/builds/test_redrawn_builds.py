"""Builds of random numbers: the same graphs and modules, none of whose weights is left."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import safetensors.numpy
from tiny_model import make_catalog

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.redrawn import RedrawnBuilder, RedrawnGraphBuilder
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Case

# The exporter of torch warns about its own future.
pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]
HOW = {"fuser": "native", "exporter": "dynamo", "opset": 18, "shapes": "static", "height": 128, "width": 128}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return Cache(tmp_path_factory.mktemp("cache"), size_bytes=10**9, say=print)


def builder(kind, cache):
    return kind(make_catalog(), Settings(cache_dir=cache.folder, in_process=True), cache, say=print)


def build(kind, cache, optimization="fp32"):
    return builder(kind, cache).build(Case("tiny", "unet", "", optimization, **HOW), "unet")


def weights_of(build):
    """The larger weights of a graph, by name."""
    initializers = ir.load(build.path).graph.initializers
    return {name: value.const_value.numpy() for name, value in initializers.items() if value.const_value.size > 100}


def test_a_graph_of_random_numbers_has_the_same_nodes(cache):
    real, drawn = (build(kind, cache) for kind in (Builder, RedrawnGraphBuilder))
    assert (real.counts, real.graph_hash) == (drawn.counts, drawn.graph_hash)
    before, after = weights_of(real), weights_of(drawn)
    assert list(before) == list(after)
    for name, array in before.items():
        assert not np.isin(after[name], array).any()
        assert after[name].std() == pytest.approx(array.std(), rel=0.2)


def test_what_is_fused_of_it_has_its_numbers(cache):
    """A projection that was transposed, say: whatever a fuser makes of weights, it makes it of these."""
    raw, fused = (weights_of(build(RedrawnGraphBuilder, cache, optimization)) for optimization in ("fp32", "all-fp16"))
    known = np.concatenate([array.reshape(-1) for array in raw.values()])
    assert all(np.isin(array, known).all() for array in fused.values())


def test_a_graph_is_exported_of_the_random_numbers_of_its_module(cache):
    kind = builder(RedrawnBuilder, cache)
    real, drawn = (safetensors.numpy.load_file(one.weights("tiny", "unet")) for one in (builder(Builder, cache), kind))
    assert list(real) == list(drawn)
    assert not np.isin(drawn["proj_in.weight"], real["proj_in.weight"]).any()
    known = np.concatenate([array.reshape(-1) for array in drawn.values()])
    assert all(np.isin(array, known).all() for array in weights_of(build(RedrawnBuilder, cache)).values())
