"""Faults of convolutions in channels-last order, and of what is around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.faults.graph.changes import array, drop_inputs, find, first_two, put, swap
from pytest_sdperf.faults.wanted import DECODER, DECODER_HALF, FUSED_DECODER, UNET, UNET_HALF, failed, too_far

if TYPE_CHECKING:
    import onnx_ir as ir

OP = "NhwcConv"


def exchange_weights(model: ir.Model) -> None:
    first, second = first_two(find(model, OP, path=("resnets", ".conv2")), 1)
    swap(model, first, second, 1)


def transpose_kernel(model: ir.Model) -> None:
    conv = find(model, OP, path=("resnets.0.conv1",))[0]
    put(model, conv, 1, array(conv, 1).transpose(0, 2, 1, 3))


def exchange_channels(model: ir.Model) -> None:
    conv = next(
        (one for one in find(model, OP, path=("conv1",)) if array(one, 1).shape[0] == array(one, 1).shape[3]), None
    )
    if conv is None:
        raise NowhereError("no convolution has as many channels before as behind it")
    put(model, conv, 1, array(conv, 1).transpose(3, 1, 2, 0))


def pad_one_side(model: ir.Model) -> None:
    import onnx_ir as ir

    conv = find(model, OP, path=("downsamplers",))[0]
    conv.attributes["pads"] = ir.AttrInt64s("pads", [2, 2, 0, 0])


def drop_bias(model: ir.Model) -> None:
    drop_inputs(find(model, OP, path=("proj_in",))[0], 2)


def exchange_height_and_width(model: ir.Model) -> None:
    import onnx_ir as ir

    node = find(model, "Transpose", path=("conv_in",))[0]
    node.attributes["perm"] = ir.AttrInt64s("perm", [0, 3, 2, 1])


def enlarge_late(model: ir.Model) -> None:
    import onnx_ir as ir

    node = find(model, "Resize")[0]
    for name, value in (("coordinate_transformation_mode", "half_pixel"), ("nearest_mode", "ceil")):
        node.attributes[name] = ir.AttrString(name, value)


def part_transposes(model: ir.Model) -> None:
    """Put the image that each norm reads into the other layout and back."""
    import onnx_ir as ir

    for index, norm in enumerate(find(model, "GroupNorm", "SkipGroupNorm")):
        image = norm.inputs[0]
        assert image is not None
        there = ir.node("Transpose", [image], {"perm": [0, 3, 1, 2]}, name=f"planted_there_{index}")
        back = ir.node("Transpose", there.outputs, {"perm": [0, 2, 3, 1]}, name=f"planted_back_{index}")
        for node in (there, back):
            node.outputs[0].name = node.name
            if image.dtype is not None:
                node.outputs[0].dtype = image.dtype
        norm.replace_input_with(0, back.outputs[0])
        model.graph.insert_before(norm, [there, back])


def compute_in_float32(model: ir.Model) -> None:
    """Put casts to float32 and back round the first convolution behind the input."""
    import onnx_ir as ir

    conv = find(model, OP)[0]
    result, half = conv.outputs[0], ir.DataType.FLOAT16
    readers = tuple(result.uses())

    def cast(value: ir.Value, to: ir.DataType, name: str) -> ir.Node:
        node = ir.node("Cast", [value], {"to": to}, name=name)
        node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = name, to, value.shape
        return node

    for index, value in enumerate(tuple(conv.inputs)):
        if value is not None:
            wide = cast(value, ir.DataType.FLOAT, f"planted_wide_{index}")
            model.graph.insert_before(conv, wide)
            conv.replace_input_with(index, wide.outputs[0])
    narrow = cast(result, half, "planted_narrow")
    result.dtype = ir.DataType.FLOAT
    model.graph.insert_after(conv, narrow)
    for node, index in readers:
        node.replace_input_with(index, narrow.outputs[0])


_SEEN = too_far(UNET, "float16")
FAULTS = (
    Fault(
        "graph-convolutions-exchanged",
        "Two convolutions of the same shape have each other's weights.",
        FaultStage.GRAPH, exchange_weights, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-kernel-transposed",
        "The kernel of a convolution was transposed with height and width exchanged.",
        FaultStage.GRAPH, transpose_kernel, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-channels-exchanged",
        "The kernel of a convolution was transposed with the channels before and behind it exchanged.",
        FaultStage.GRAPH, exchange_channels, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-padded-on-one-side",
        "A convolution pads two pixels at the top and left instead of one on every side.",
        FaultStage.GRAPH, pad_one_side, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-bias-of-convolution-lost",
        "A convolution that was put into channels-last order has lost its bias.",
        FaultStage.GRAPH, drop_bias, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-height-and-width-exchanged",
        "A transpose into channels-last order exchanges height and width, which square images hide from shape checks.",
        FaultStage.GRAPH, exchange_height_and_width, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-image-enlarged-late",
        "The decoder doubles pixels from their upper edge instead of their lower one.",
        FaultStage.GRAPH, enlarge_late, too_far(DECODER, "float16"), DECODER, DECODER_HALF,
    ),
    Fault(
        "graph-transposes-do-not-cancel",
        "Every operator is fused, and round each norm the image goes into the other layout and back.",
        FaultStage.GRAPH, part_transposes,
        failed(
            "operators-missing",
            "The vae_decoder graph of shapes at bias-add, fused by native, lacks operators that its "
            "torch module allows: # Transpose left (at most 2).",
            by="fusions",
        ),
        DECODER, FUSED_DECODER,
    ),
    Fault(
        "graph-convolution-in-single-precision",
        "Every operator is fused, and one convolution computes in float32, between casts of half precision.",
        FaultStage.GRAPH, compute_in_float32,
        failed(
            "half-precision-lost",
            "The vae_decoder graph of shapes at bias-add, fused by native, computes 1 NhwcConv in float32, though its "
            "weights are half precision.",
            by="fusions",
        ),
        DECODER, FUSED_DECODER,
    ),
)  # fmt: skip
