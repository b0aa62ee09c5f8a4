"""Faults of GroupNorm, SkipGroupNorm and SkipLayerNormalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.faults.graph.changes import array, drop_inputs, find, first_two, put, set_float, set_int, swap
from pytest_sdperf.faults.wanted import DECODER, DECODER_HALF, UNET, UNET_HALF, too_far

if TYPE_CHECKING:
    import onnx_ir as ir

GROUP, SKIP_GROUP, SKIP_LAYER = "GroupNorm", "SkipGroupNorm", "SkipLayerNormalization"
SCALE, OFFSET = 1, 2


def _rotate(nodes: list[ir.Node], model: ir.Model, index: int) -> None:
    """Give each node the weight of the next one of the same width."""
    by_width: dict[int, list[ir.Node]] = {}
    for node in nodes:
        by_width.setdefault(array(node, index).size, []).append(node)
    for alike in by_width.values():
        weights = [array(node, index) for node in alike]
        for node, weight in zip(alike, weights[1:] + weights[:1], strict=True):
            if len(alike) > 1:
                put(model, node, index, weight)


def rotate_scales(model: ir.Model) -> None:
    _rotate(find(model, SKIP_GROUP), model, SCALE)


def rotate_offsets(model: ir.Model) -> None:
    _rotate(find(model, SKIP_GROUP), model, OFFSET)


def exchange_scale_and_offset(model: ir.Model) -> None:
    norm = find(model, SKIP_GROUP)[0]
    swap(model, norm, norm, SCALE, OFFSET)


def exchange_scales_of_layer_norms(model: ir.Model) -> None:
    first, second = first_two(find(model, SKIP_LAYER, path=("attentions.0",)), 2)
    swap(model, first, second, 2)


def halve_number_of_groups(model: ir.Model) -> None:
    norm = find(model, SKIP_GROUP)[0]
    set_int(norm, "groups", norm.attributes["groups"].as_int() // 2)


def _with_activation(model: ir.Model, activation: int) -> ir.Node:
    found = (node for node in find(model, SKIP_GROUP) if node.attributes["activation"].as_int() == activation)
    node = next(found, None)
    if node is None:
        raise NowhereError(f"no {SKIP_GROUP} with activation {activation}")
    return node


def drop_activation(model: ir.Model) -> None:
    set_int(_with_activation(model, 1), "activation", 0)


def add_activation(model: ir.Model) -> None:
    set_int(_with_activation(model, 0), "activation", 1)


def _behind_convolution(model: ir.Model) -> tuple[ir.Node, ir.Node]:
    """Return a SkipGroupNorm that took over the bias of the convolution before it, and that convolution."""
    for norm in find(model, SKIP_GROUP, path=("resnets",)):
        conv = norm.inputs[0].producer() if norm.inputs[0] is not None else None
        if conv is not None and conv.op_type == "NhwcConv" and len(conv.inputs) == 2 and len(norm.inputs) == 5:
            return norm, conv
    raise NowhereError(f"no {SKIP_GROUP} has taken over a bias")


def add_moved_bias_twice(model: ir.Model) -> None:
    norm, conv = _behind_convolution(model)
    conv.resize_inputs(3)
    conv.replace_input_with(2, norm.inputs[4])


def drop_moved_bias(model: ir.Model) -> None:
    drop_inputs(_behind_convolution(model)[0], 4)


def take_skip_from_elsewhere(model: ir.Model) -> None:
    norm = find(model, SKIP_GROUP, path=("down_blocks.0.attentions.1.norm",))[0]
    norm.replace_input_with(3, find(model, GROUP)[0].inputs[0])


def take_skip_of_layer_norm_from_elsewhere(model: ir.Model) -> None:
    first, second = find(model, SKIP_LAYER, path=("down_blocks.0.attentions.0",))[:2]
    second.replace_input_with(1, first.inputs[1])


def read_norm_for_sum(model: ir.Model) -> None:
    import onnx_ir as ir

    norm = find(model, SKIP_LAYER, path=("attentions.0",))[0]
    ir.convenience.replace_all_uses_with(norm.outputs[3], norm.outputs[0])


def drop_bias_of_layer_norm(model: ir.Model) -> None:
    drop_inputs(find(model, SKIP_LAYER, path=("attentions.0",))[0], 4)


def multiply_epsilon(model: ir.Model, *, op_types: tuple[str, ...]) -> None:
    """Make the epsilon of norms ten times as large."""
    for norm in find(model, *op_types):
        set_float(norm, "epsilon", 10 * norm.attributes["epsilon"].as_float())


_SEEN = too_far(UNET, "float16")


def _fault(name: str, about: str, change: object) -> Fault:
    assert callable(change)
    return Fault(f"graph-{name}", about, FaultStage.GRAPH, change, _SEEN, UNET, UNET_HALF)


FAULTS = (
    _fault(
        "scales-of-norms-rotated",
        "Each fused norm has the scale of the next one: untrained weights, where every scale is 1, hide it.",
        rotate_scales,
    ),
    Fault(
        "graph-offsets-of-norms-rotated",
        "Each fused norm of the decoder has the offset of the next one.",
        FaultStage.GRAPH, rotate_offsets, too_far(DECODER, "float16"), DECODER, DECODER_HALF,
    ),
    _fault("scale-and-offset-exchanged", "A fused norm takes its offset for its scale.", exchange_scale_and_offset),
    _fault("layer-norms-exchanged", "Two layer norms have each other's scale.", exchange_scales_of_layer_norms),
    _fault("number-of-groups-halved", "A fused norm has half as many groups.", halve_number_of_groups),
    _fault("activation-lost", "A fused norm no longer applies the SiLU that it took in.", drop_activation),
    _fault("activation-added", "A fused norm applies a SiLU that was not there.", add_activation),
    _fault("moved-bias-added-twice", "A bias moved into a fused norm, and stayed where it was.", add_moved_bias_twice),
    _fault("moved-bias-lost", "A bias left its convolution, and no fused norm has it.", drop_moved_bias),
    _fault("skip-from-elsewhere", "A fused norm adds the input of another block.", take_skip_from_elsewhere),
    _fault(
        "skip-of-layer-norm-from-elsewhere",
        "A fused layer norm adds what another one has added already.",
        take_skip_of_layer_norm_from_elsewhere,
    ),
    _fault("norm-read-for-sum", "What follows a fused norm reads its result for the sum beside it.", read_norm_for_sum),
    _fault("bias-of-layer-norm-lost", "A fused layer norm has lost the bias that it took in.", drop_bias_of_layer_norm),
)  # fmt: skip
