"""Faults of arithmetic: less precision than was asked for, another constant, values that are no numbers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_sdperf.faults.fault import FAILED, Detection, Fault, FaultStage, NowhereError
from pytest_sdperf.faults.graph.attention import scale_wrongly
from pytest_sdperf.faults.graph.changes import find
from pytest_sdperf.faults.graph.norms import GROUP, SKIP_GROUP, SKIP_LAYER, multiply_epsilon
from pytest_sdperf.faults.loaded import answering
from pytest_sdperf.faults.wanted import (
    DECODER,
    REQUEST,
    TEXT_ENCODER,
    TEXT_RAW,
    UNET,
    UNET_SINGLE,
    not_comparable,
    too_far,
)  # fmt: skip

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from pytest_sdperf.faults.loaded import Change

    Arrays = dict[str, np.ndarray[Any, Any]]


def _floats(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if array.dtype.kind == "f"}


def scaled(outputs: Arrays, call: int) -> Arrays:
    return {**outputs, **{name: (array * 1.01).astype(array.dtype) for name, array in _floats(outputs).items()}}


def in_half(outputs: Arrays, call: int) -> Arrays:
    half = {name: array.astype("float16").astype(array.dtype) for name, array in _floats(outputs).items()}
    return {**outputs, **half}


def flushed(outputs: Arrays, call: int) -> Arrays:
    import numpy as np

    kept = {
        name: np.where(np.abs(array) < 1e-3, 0, array).astype(array.dtype) for name, array in _floats(outputs).items()
    }
    return {**outputs, **kept}


def clipped(outputs: Arrays, call: int) -> Arrays:
    return {**outputs, **{name: array.clip(-1, 1) for name, array in _floats(outputs).items()}}


def _with_one(value: float) -> Change:
    def change(outputs: Arrays, call: int) -> Arrays:
        changed = {name: array.copy() for name, array in _floats(outputs).items()}
        for array in changed.values():
            array.reshape(-1)[array.size // 2] = value
        return {**outputs, **changed}

    return change


def overflowing_at(number: int) -> Change:
    """Return what makes everything NaN from a call on."""

    def change(outputs: Arrays, call: int) -> Arrays:
        return {name: array * float("nan") if call >= number else array for name, array in outputs.items()}

    return change


def black(outputs: Arrays, call: int) -> Arrays:
    return {name: array * 0 - 1 for name, array in outputs.items()}


def halve_products(model: ir.Model) -> None:
    """Round what enters every product to the ten bits that TF32 keeps, too."""
    import onnx_ir as ir

    for node in find(model, "MatMul"):
        for index, source in enumerate(node.inputs):
            assert source is not None
            down = ir.node("Cast", [source], attributes={"to": ir.AttrInt64("to", ir.DataType.FLOAT16.value)})
            up = ir.node("Cast", [down.outputs[0]], attributes={"to": ir.AttrInt64("to", ir.DataType.FLOAT.value)})
            for one, kind in ((down, ir.DataType.FLOAT16), (up, ir.DataType.FLOAT)):
                one.outputs[0].shape, one.outputs[0].type = source.shape, ir.TensorType(kind)
                one.outputs[0].name = f"planted_{node.name}_{index}_{kind.name}"
                model.graph.insert_before(node, one)
            node.replace_input_with(index, up.outputs[0])


def change_slope(model: ir.Model) -> None:
    """Replace the 1.702 of the quick GELU by 1.7."""
    import numpy as np
    import onnx_ir as ir

    for node in find(model, "Mul"):
        for value in node.inputs:
            constant = value.const_value if value is not None else None
            if (
                value is not None
                and constant is not None
                and constant.size == 1
                and abs(float(constant.numpy()) - 1.702) < 1e-6
            ):
                value.const_value = ir.tensor(np.full(constant.shape.numpy(), 1.7, dtype=np.float32), name=value.name)
                return
    raise NowhereError("no product with 1.702")


_OVERFLOW = Detection(
    "agreement", FAILED,
    "From step 3 of 4 on the latents are not finite. The error was # after step 1, # after step 2. The unet began "
    "it: # of "
    "# values of its output at step 3 of 4 are not finite; until then none exceeded #. In torch float64 none exceeds "
    "#.",
    "steps",
)  # fmt: skip
_BLACK = Detection(
    "agreement", FAILED,
    "The image has a relative L2 error # against torch float64; plain torch float32 has # in the worst of # roundings, "
    "so at most # passes; the worst element is image[...]. The image is black: no value is brighter than # of 255, of "
    "the reference no value is brighter than # of 255. The latents after every step agree: only decoding them differs.",
    "image",
)  # fmt: skip
_SINGLE, _TEXT = too_far(UNET, "float32"), too_far(TEXT_ENCODER, "float32")
FAULTS = (
    Fault(
        "numerics-one-percent-high",
        "Everything that a component puts out is 1 % too large.",
        FaultStage.RUNNER, answering(after=scaled), _TEXT, TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "numerics-put-out-in-half-precision",
        "A float32 component rounds its outputs to float16.",
        FaultStage.RUNNER, answering(after=in_half), _TEXT, TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "numerics-small-values-lost",
        "Values below 0.001 become 0.",
        FaultStage.RUNNER, answering(after=flushed), _TEXT, TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "numerics-clipped",
        "Values are clipped to the range from -1 to 1.",
        FaultStage.RUNNER, answering(after=clipped), _TEXT, TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "numerics-one-value-not-a-number",
        "One value of each output is not a number.",
        FaultStage.RUNNER, answering(after=_with_one(float("nan"))),
        not_comparable("output 'last_hidden_state' holds 1 of # values that are not finite"), TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "numerics-one-value-infinite",
        "One value of each output is infinite.",
        FaultStage.RUNNER, answering(after=_with_one(float("inf"))),
        not_comparable("output 'last_hidden_state' holds 1 of # values that are not finite"), TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "numerics-products-in-ten-bits",
        "Products of a float32 graph are computed with ten bits of mantissa, as TF32 does.",
        FaultStage.GRAPH, halve_products, _SINGLE, UNET, UNET_SINGLE,
    ),
    Fault(
        "numerics-attention-scale",
        "The products of self-attention are scaled 2 % too high.",
        FaultStage.GRAPH, scale_wrongly, _SINGLE, UNET, UNET_SINGLE,
    ),
    Fault(
        "numerics-epsilon-of-group-norms",
        "The epsilon of every group norm is ten times as large, as in a kernel that has its own.",
        FaultStage.GRAPH, functools.partial(multiply_epsilon, op_types=(GROUP, SKIP_GROUP)), _SINGLE, UNET, UNET_SINGLE,
    ),
    Fault(
        "numerics-epsilon-of-layer-norms",
        "The epsilon of every layer norm is ten times as large.",
        FaultStage.GRAPH, functools.partial(multiply_epsilon, op_types=("LayerNormalization", SKIP_LAYER)), _SINGLE,
        UNET, UNET_SINGLE,
    ),
    Fault(
        "numerics-slope-of-quick-gelu",
        "The quick GELU of the text encoder has the slope 1.7 instead of 1.702.",
        FaultStage.EXPORT, change_slope, _TEXT, TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "numerics-overflow-at-step-3",
        "Attention overflows at the third of four steps, and everything behind it is not a number.",
        FaultStage.RUNNER, answering(after=overflowing_at(3)),
        _OVERFLOW, UNET, REQUEST,
    ),
    Fault(
        "numerics-black-image",
        "The decoder overflows and the image that is left is black.",
        FaultStage.RUNNER, answering(after=black), _BLACK, DECODER, REQUEST,
    ),
)  # fmt: skip
