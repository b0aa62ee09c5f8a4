"""The answer of every task that writes a graph: metadata of the cache entry that the graph becomes."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sdperf.core.clock import Took
from pytest_sdperf.fusing.graph import GraphFacts


@dataclass(frozen=True)
class MadeGraph(Took):
    """A graph that was written and checked.

    Attributes:
        graph: What was found in it.
        notes: What has to be said of how it was made: refusals of an optimizer, changes at its edge.
        limits: Why the kernels of a CUDA GPU would throw on it, one sentence per kind of operator.
    """

    graph: GraphFacts
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
