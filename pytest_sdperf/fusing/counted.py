"""The name under which a node of a graph in memory is counted."""

from __future__ import annotations

import onnx_ir as ir

from pytest_sdperf.fusing import node_names


def counted(node: ir.Node) -> str:
    """Return `domain::op_type`, with the form where an operator has several: see `node_names.counted_name`."""
    activation = node.attributes.get(node_names.ACTIVATION)
    return node_names.counted_name(
        node.domain,
        node.op_type,
        [value is not None for value in node.inputs],
        activated=activation is not None and activation.value == 1,
    )
