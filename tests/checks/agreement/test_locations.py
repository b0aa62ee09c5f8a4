"""Where it went wrong, as sentences: each kind, read whole."""

from __future__ import annotations

import dataclasses
import math

from hypothesis import given, strategies

from pytest_sdperf.checks.agreement.locations import sentence
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.located import Located, Location, Reproduction

LOCATION = Location("attended", "mha_3", "com.microsoft::MultiHeadAttention", "unet.mid.attn1", 0.24, 3.2e-3)
READ = Location("packed", "reshape_2", "::Reshape", "unet.mid.attn1", 1.3e-3, 3.2e-3)
FILES = Reproduction("/tmp/files", "python /tmp/files/reproduce.py", "random")
GRAPH = Located("unet", "graph", LOCATION, (READ,), READ, ("mha_3",), reproduction=FILES)


def test_a_wrong_graph():
    assert sentence(GRAPH) == (
        "The graph of the unet goes wrong at com.microsoft::MultiHeadAttention mha_3 of unet.mid.attn1: relative L2 "
        "error 2.40e-01, and at most 3.20e-03 passes there. What it reads agrees: packed, the nearest to its limit, "
        "has an error 1.30e-03 of at most 3.20e-03. By its definition it gives something else than the reference: the "
        "graph is wrong, whatever runs it. The last value before it that agrees is that of Reshape reshape_2 of "
        "unet.mid.attn1. Reproduce it (random weights): python /tmp/files/reproduce.py"
    )


def test_a_section_and_other_wrong_nodes():
    several = dataclasses.replace(GRAPH, section=tuple("abcdefg"), last=None, reproduction=None, more=2)
    assert sentence(several) == (
        "The graph of the unet goes wrong at com.microsoft::MultiHeadAttention mha_3 of unet.mid.attn1: relative L2 "
        "error 2.40e-01, and at most 3.20e-03 passes there. It is the first place with a counterpart after 6 nodes "
        "without one, of which the first is the likeliest culprit: a, b, c, d, e, 1 more. What it reads agrees: "
        "packed, the nearest to its limit, has an error 1.30e-03 of at most 3.20e-03. By its definition it gives "
        "something else than the reference: the graph is wrong, whatever runs it. At least 2 other nodes further on "
        "are wrong too."
    )


@given(
    kind=strategies.sampled_from(["graph", "export", "engine", "spread"]),
    nodes=strategies.lists(strategies.text("abcdef", min_size=1), min_size=1, max_size=12).map(tuple),
)
def test_of_nodes_without_a_counterpart_the_first_is_always_named_first(kind, nodes):
    told = sentence(dataclasses.replace(GRAPH, kind=kind, section=(*nodes, "mha_3")))
    culprit = ", of which the first is the likeliest culprit" if len(nodes) > 1 and kind != "spread" else ""
    count = f"{len(nodes):,} node{'s' if len(nodes) > 1 else ''}"
    assert f"after {count} without one{culprit}: {nodes[0]}{'.' if len(nodes) == 1 else ', '}" in told
    assert (f", {len(nodes) - 5} more." in told) == (len(nodes) > 5)


def test_an_overflow_of_an_engine_in_a_request():
    location = dataclasses.replace(LOCATION, error=math.inf)
    located = Located("unet", "engine", location, (), call="call 3 of the unet")
    assert sentence(located) == (
        "The unet goes wrong at com.microsoft::MultiHeadAttention mha_3 of unet.mid.attn1, in call 3 of the unet: not "
        "all of its values are finite. What it reads could not be seen. Its definition gives something else for what "
        "it read: the engine computes it wrong."
    )


def test_a_fault_that_was_there_before():
    wrong = dataclasses.replace(READ, error=0.5)
    located = Located("unet", "spread", LOCATION, (wrong,))
    assert sentence(located) == (
        "The unet first leaves its limit at com.microsoft::MultiHeadAttention mha_3 of unet.mid.attn1: relative L2 "
        "error 2.40e-01, and at most 3.20e-03 passes there. What it reads differs already: packed by 5.00e-01, where "
        "3.20e-03 passes. It gives what its definition gives for what it read: no single node is wrong, errors add up "
        "before it."
    )


def test_nobody_could_look_inside():
    assert sentence(Located("unet", "hidden", told="Looking inside failed: why.")) == "Looking inside failed: why."


def test_it_travels_as_json():
    assert convert(to_json(GRAPH), Located) == GRAPH


def test_plain_torch_itself_is_not_finite():
    location = Location("scores", "", "MatMul", "unet.mid.attn1", math.inf, math.inf)
    assert sentence(Located("unet", "plain", location, call="call 3 of the unet")) == (
        "In plain torch itself the unet goes wrong at MatMul of unet.mid.attn1, in call 3 of the unet: not all of its "
        "values are finite. The reference has numbers there, which this dtype cannot hold: of what follows "
        "nothing can be called right, whatever the engine."
    )
