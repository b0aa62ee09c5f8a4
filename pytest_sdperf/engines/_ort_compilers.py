"""What the compiling providers of ONNX Runtime have in common: they take parts of a graph, and leave the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import ComponentFacts
from pytest_sdperf.engines import _ort

if TYPE_CHECKING:
    import onnxruntime


def partitions(session: onnxruntime.InferenceSession, provider: str) -> ComponentFacts:
    """Return the fact `partitions`: parts that a provider compiled, and nodes that are left to the CPU.

    Args:
        session: A loaded component whose options asked to record the assignment.
        provider: Name of the compiling provider.

    Returns:
        `partitions` with `engines` and `cpu_nodes`; or `partitions_not_available` with the reason.
    """
    parts, why_not = _ort.assignment(session)
    if not parts:
        return {"partitions_not_available": why_not}
    # A compiled part is one entry that holds all of its nodes; any other provider has an entry for each node.
    engines = sum(part.ep_name == provider for part in parts)
    cpu_nodes = sum(len(part.get_nodes()) for part in parts if part.ep_name == _ort.CPU_PROVIDER)
    return {"partitions": {"engines": engines, "cpu_nodes": cpu_nodes}}
