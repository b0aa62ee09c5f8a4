"""Conv -> NhwcConv between two transposes, which the layout pass moves away."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, Refused
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.layout import to_nchw, to_nhwc


class NhwcConv(Fusion):
    """Two-dimensional convolution in channels-last layout, its weights transposed once."""

    op = f"{MICROSOFT}::NhwcConv"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every convolution."""
        return graph.nodes("Conv")

    def requires(self, node: ir.Node, graph: FusionGraph) -> ir.Node:
        """Check that it convolves images (N, C, H, W) with weights."""
        shape = graph.shapes.fixed(node.inputs[0]) if node.inputs[0] is not None else None
        if shape is None or len(shape) != 4:
            raise Refused("its input is no image (N, C, H, W)", node)
        if not graph.is_weight(node.inputs[1], 4):
            raise Refused("its kernel is no weight of rank 4", node)
        if len(node.inputs) > 2 and node.inputs[2] is not None and not graph.is_weight(node.inputs[2], 1):
            raise Refused("its bias is no weight of rank 1", node)
        if "auto_pad" in node.attributes and node.attributes["auto_pad"].as_string() not in ("NOTSET", ""):
            raise Refused("its padding is chosen by the operator", node)
        return node

    def apply(self, match: ir.Node, graph: FusionGraph) -> ir.Node:
        """Transpose the input, convolve, transpose back."""
        image, kernel = match.inputs[0], match.inputs[1]
        assert image is not None
        assert kernel is not None
        assert kernel.const_value is not None
        outputs, inputs, height, width = (int(size) for size in kernel.const_value.shape)
        transposed = graph.weight(kernel, "nhwc", (outputs, height, width, inputs), lambda w: w.transpose(0, 2, 3, 1))
        attributes = {name: attribute.value for name, attribute in match.attributes.items() if name != "auto_pad"}
        fused = graph.add(
            "NhwcConv", [to_nhwc(image, graph, before=match), transposed, *match.inputs[2:]], attributes,
            before=match, domain=MICROSOFT,
        )  # fmt: skip
        result = fused.outputs[0]
        result.dtype = match.outputs[0].dtype
        graph.shapes.permute(match.outputs[0], result, (0, 2, 3, 1))
        graph.replace(match.outputs[0], to_nchw(result, graph, before=match))
        return fused
