"""Faults of fused graphs: each is seen by the comparison that the graph without the fault passes, and by far.

A comparison that no wrong graph fails proves nothing. Weights are drawn so that no two norms are alike.
`tests/faults` plants the same faults into whole runs.
"""

from __future__ import annotations

import functools

import pytest
import rewriting
from rewriting import LAST, error, plain, reference, tolerance

from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.tensors import compare
from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import FaultStage

GRAPHS = {
    "unet": ("torch-2.13/sd15-thin-unet-dynamo-18-dynamic", "unet.down_blocks.0"),
    "text_encoder": ("torch-2.13/sd15-thin-text_encoder-dynamo-18-dynamic", ""),
    "vae_decoder": ("torch-2.13/sd15-thin-vae_decoder-dynamo-18-static", ""),
}
OPEN_TEXT = ("torch-2.13/sd21-thin-text_encoder-dynamo-18-static", "")
FAULTS = [fault for fault in known.FAULTS.values() if fault.place is FaultStage.GRAPH and fault.found.by == "agreement"]
# float16 rounds more than these change; all others are seen in a build of halves too.
SMALL = {"numerics-epsilon-of-group-norms", "numerics-epsilon-of-layer-norms", "numerics-products-in-ten-bits"}


def graph_of(fault):
    return OPEN_TEXT if "sd21" in fault.options else GRAPHS[fault.component]


@functools.cache
def fused(graph):
    model = rewriting.load(*graph)
    rewriting.build(model, LAST, dtype="float32")
    return model


def error_of(graph, model):
    name, path = graph
    inputs, expected = reference(name, 0, path)
    return error(rewriting.run(model, inputs), expected)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_shows(fault):
    graph = name, path = graph_of(fault)
    model = fused(graph).clone()
    fault.change(model)
    inputs, expected = reference(name, 0, path)
    obtained = rewriting.run(model, inputs)
    found = error(obtained, expected)
    assert found > 20 * tolerance(name, "float32", 0, path)
    if fault.name not in SMALL:
        assert found > tolerance(name, "float16", 0, path)
    if fault.component == "unet":  # whole runs say the words of the others
        dtype = "float16" if "plain torch float16" in fault.found.words else "float32"
        by_name = [{"out_sample": arrays[0]} for arrays in (obtained, expected, plain(name, dtype, 0, path))]
        agreement = compare(by_name[0], by_name[1], plain=by_name[2], level="component", dtype=dtype)
        assert not agreement.passed
        assert fault.found.pattern.fullmatch(sentences(agreement))


@pytest.mark.parametrize("graph", [*GRAPHS.values(), OPEN_TEXT], ids=lambda graph: graph[0].partition("/")[2])
def test_the_graph_without_a_fault_passes(graph):
    name, path = graph
    assert error_of(graph, fused(graph).clone()) <= tolerance(name, "float32", 0, path)
