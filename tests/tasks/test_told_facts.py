"""What a runner tells of what ran enters a message under names that have types, or not at all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.core.values import ComponentFacts
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.tasks._loading import LoadedComponent
from pytest_sdperf.testing.probe_model import ProbeModel

KNOWN = (
    "Known: accumulation, attention, changed_inputs, compile, compile_cache, conv_search, cpu_node_count, cpu_nodes, "
    "cuda_graph, file_nodes, layers, memcpy_nodes, own, partitions, partitions_not_available, placement, "
    "placement_not_available, providers, shape_node_count, tf32, threads, tuning."
)


def told(**facts: object) -> ComponentFacts:
    return LoadedComponent(OrtCpuEngine(), ProbeModel(), SimpleNamespace(facts=lambda: facts), 0.0).facts()


def test_known_names_and_what_is_an_engines_own_pass():
    assert told(threads="4", own={"energy_j": 12.3}) == {"threads": "4", "own": {"energy_j": 12.3}}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("energy_j", ""),
        ("memcopy_nodes", " Did you mean 'memcpy_nodes'?"),
        ("waited", ""),  # a task finds that out, of every engine alike
    ],
)
def test_an_unknown_name_is_refused_with_what_to_do(name, near):
    with pytest.raises(UnknownNameError) as caught:
        told(**{"threads": "4", name: 3})
    assert str(caught.value) == (
        f'unknown fact {name!r}.{near} {KNOWN} ort-cpu tells it: put what is an engine\'s own under "own", as '
        f'{{"own": {{"{name}": ...}}}}.'
    )
