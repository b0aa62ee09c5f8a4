"""Conv -> NhwcConv between two transposes, which the layout pass moves away."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.layout import NCHW_TO_NHWC, to_nchw, to_nhwc


class NhwcConv(Fusion):
    """Two-dimensional convolution in channels-last layout, its weights transposed once."""

    op = f"{MICROSOFT}::NhwcConv"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every convolution."""
        return graph.nodes("Conv")

    def requires(self, node: ir.Node, graph: FusionGraph) -> ir.Node:
        """Check that it convolves images (N, C, H, W) with weights."""
        shape = graph.shapes.fixed(node.inputs[0]) if node.inputs[0] is not None else None
        if shape is None:
            raise RefusalError("the shape of its input is not known", node)
        if len(shape) != 4:
            raise RefusalError("its input is no image (N, C, H, W)", node)
        if graph.producer(node.inputs[1], "DequantizeLinear") is not None:
            raise RefusalError("its kernel is quantized", graph.producer(node.inputs[1]))
        if not graph.is_weight(node.inputs[1], 4):
            raise RefusalError("its kernel is no weight of rank 4", node)
        if len(node.inputs) > 2 and node.inputs[2] is not None and not graph.is_weight(node.inputs[2], 1):
            raise RefusalError("its bias is no weight of rank 1", node)
        if "auto_pad" in node.attributes and node.attributes["auto_pad"].as_string() not in ("NOTSET", ""):
            raise RefusalError("its padding is chosen by the operator", node)
        return node

    def apply(self, match: ir.Node, graph: FusionGraph) -> ir.Node:
        """Transpose the input, convolve, transpose back."""
        image, kernel, *bias = match.inputs
        assert image is not None
        assert kernel is not None
        assert kernel.const_value is not None
        outputs, inputs, height, width = kernel.const_value.shape.numpy()
        sizes = (outputs, height, width, inputs)
        transposed = graph.weight(kernel, "nhwc", sizes, lambda weight: weight.transpose(NCHW_TO_NHWC))
        attributes = {name: attribute for name, attribute in match.attributes.items() if name != "auto_pad"}
        operands = [to_nhwc(image, graph, before=match), transposed, *(value for value in bias if value is not None)]
        fused = graph.add("NhwcConv", operands, attributes, before=match, domain=MICROSOFT)
        graph.shapes.permute(match.outputs[0], fused.outputs[0], NCHW_TO_NHWC)
        graph.replace(match.outputs[0], to_nchw(fused.outputs[0], graph, before=match))
        return fused
