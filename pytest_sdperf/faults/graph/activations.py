"""Faults of activations and of what is added behind them, and a fusion that does not fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.faults.graph.changes import array, bypass, find, first_two, put, swap
from pytest_sdperf.faults.wanted import (
    DECODER,
    FUSED_DECODER,
    OTHER_TEXT_HALF,
    TEXT_ENCODER,
    TEXT_HALF,
    UNET,
    UNET_HALF,
    failed,
    too_far,
)

if TYPE_CHECKING:
    import onnx_ir as ir


def exchange_halves_of_geglu(model: ir.Model) -> None:
    import numpy as np

    node = find(model, "BiasSplitGelu")[0]
    product = node.inputs[0].producer() if node.inputs[0] is not None else None
    if product is None:
        raise NowhereError("no product before BiasSplitGelu")
    half = array(node, 1).size // 2
    put(model, node, 1, np.roll(array(node, 1), half))
    put(model, product, 1, np.roll(array(product, 1), half, axis=1))


def negate_bias_of_geglu(model: ir.Model) -> None:
    node = find(model, "BiasSplitGelu")[0]
    put(model, node, 1, -array(node, 1))


def skip_bias_add(model: ir.Model) -> None:
    bypass(model, find(model, "BiasAdd")[0], 2)


def add_other_skip(model: ir.Model) -> None:
    first, second = find(model, "BiasAdd", path=("down_blocks.0",))[:2]
    second.replace_input_with(2, first.outputs[0])


def exchange_bias_adds(model: ir.Model) -> None:
    first, second = first_two(find(model, "BiasAdd"), 1)
    swap(model, first, second, 1)


def skip_silu(model: ir.Model) -> None:
    bypass(model, find(model, "Mul", path=("time_embedding.act",))[0], 0)


def exchange_sine_and_cosine(model: ir.Model) -> None:
    concat = next(iter(find(model, "Sin")[0].outputs[0].consumers()))
    if concat.op_type != "Concat" or len(concat.inputs) != 2:
        raise NowhereError("the sine is not joined with a cosine")
    first, second = concat.inputs
    concat.replace_input_with(0, second)
    concat.replace_input_with(1, first)


def replace_quick_gelu(model: ir.Model) -> None:
    for node in find(model, "QuickGelu"):
        node.op_type = "Gelu"
        node.attributes.clear()


def drop_bias_of_gelu(model: ir.Model) -> None:
    import numpy as np

    node = find(model, "BiasGelu")[-1]
    put(model, node, 1, np.zeros_like(array(node, 1)))


def write_norm_differently(model: ir.Model) -> None:
    _write_differently(model, find(model, "InstanceNormalization")[:1])


def write_silu_differently(model: ir.Model) -> None:
    _write_differently(model, find(model, "Sigmoid"))


def _write_differently(model: ir.Model, nodes: Sequence[ir.Node]) -> None:
    """Negate what nodes are given, twice."""
    import onnx_ir as ir

    for number, given in enumerate([node for node in nodes for _ in range(2)]):
        source = given.inputs[0]
        assert source is not None
        node = ir.node("Neg", [source], metadata_props=dict(given.metadata_props))
        node.outputs[0].name = f"planted_{number}"
        node.outputs[0].shape, node.outputs[0].type = source.shape, source.type
        model.graph.insert_before(given, node)
        given.replace_input_with(0, node.outputs[0])


_SEEN = too_far(UNET, "float16")
FAULTS = (
    Fault(
        "graph-halves-of-geglu-exchanged",
        "A fused GEGLU applies its activation to the half that it shall only multiply.",
        FaultStage.GRAPH, exchange_halves_of_geglu, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-bias-of-geglu-negated",
        "A fused GEGLU subtracts its bias.",
        FaultStage.GRAPH, negate_bias_of_geglu, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-bias-add-skipped",
        "The result of a fused bias and residual is the residual alone.",
        FaultStage.GRAPH, skip_bias_add, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-residual-from-elsewhere",
        "A fused bias and residual adds the residual of another block.",
        FaultStage.GRAPH, add_other_skip, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-biases-exchanged",
        "Two fused biases stand in each other's place.",
        FaultStage.GRAPH, exchange_bias_adds, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-silu-skipped",
        "The SiLU of the time embedding is left out.",
        FaultStage.GRAPH, skip_silu, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-sine-and-cosine-exchanged",
        "The time embedding joins sine and cosine in the other order.",
        FaultStage.GRAPH, exchange_sine_and_cosine, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-gelu-for-quick-gelu",
        "The text encoder computes the exact GELU where its model has the quick one.",
        FaultStage.GRAPH, replace_quick_gelu, too_far(TEXT_ENCODER, "float16"), TEXT_ENCODER, TEXT_HALF,
    ),
    Fault(
        "graph-bias-of-gelu-lost",
        "A fused GELU of a text encoder has lost the bias that it took in.",
        FaultStage.GRAPH, drop_bias_of_gelu, too_far(TEXT_ENCODER, "float16"), TEXT_ENCODER,
        OTHER_TEXT_HALF,
    ),
    Fault(
        "graph-norm-not-fused",
        "The exporter writes one norm in another form of the same value, which no rule of the optimizer knows.",
        FaultStage.EXPORT, write_norm_differently,
        failed(
            "operators-missing",
            "The vae_decoder graph of shapes at bias-add, fused by native, lacks operators that its "
            "torch module allows: GroupNorm[silu] # of #.",
            by="fusions",
        ),
        DECODER, FUSED_DECODER,
    ),
    Fault(
        "graph-silu-not-taken-in",
        "The exporter writes SiLU in another form of the same value: norms are fused, and none has its activation.",
        FaultStage.EXPORT, write_silu_differently,
        failed(
            "operators-missing",
            "The vae_decoder graph of shapes at bias-add, fused by native, lacks operators that its "
            "torch module allows: GroupNorm[silu] 0 of #, "
            "SkipGroupNorm[silu] 0 of #.",
            by="fusions",
        ),
        DECODER, FUSED_DECODER,
    ),
)  # fmt: skip
