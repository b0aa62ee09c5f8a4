"""What the CUDA kernels of ONNX Runtime's own ops take, for the ops that have no CPU kernel.

Transcribed from the schemas (`onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema()`) and from what the
kernels enforce when they run (`onnxruntime/contrib_ops/cuda/diffusion` and `contrib_ops/cpu/bert` in its sources): a
graph that breaks one of these rules loads on a GPU and throws there. Limits of sizes are not among them: they change
with the version, and a graph that breaks them is computed rightly here.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from pytest_sdperf.core.errors import BuildError

DOMAIN = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Values:
    """The values of an attribute that are supported: in words, and as a set."""

    words: str
    allowed: Container[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a kernel takes.

    Attributes:
        inputs: Names in the order of the schema, each with the shapes that are supported; no shape: not checked.
            A size is a number, the name of an integer attribute, or a letter that means one size in the whole node.
        required: Names of the inputs that must be there.
        absent: Names of the inputs that must not be there.
        float32: Names of the inputs that are float32, whatever type the others have.
        attributes: Known names; None supports every value.
        required_attributes: Names of the attributes that must be there.
    """

    inputs: Mapping[str, tuple[str, ...]]
    required: tuple[str, ...]
    absent: tuple[str, ...] = ()
    float32: tuple[str, ...] = ()
    attributes: Mapping[str, Values | None] = field(default_factory=dict)
    required_attributes: tuple[str, ...] = ()

    def by_name(self, node: ir.Node) -> dict[str, ir.Value]:
        """Return the inputs of a node that are there, by their names."""
        named = zip(self.inputs, node.inputs, strict=False)
        return {name: value for name, value in named if value is not None}


def find_form(node: ir.Node) -> Form | None:
    """Return the form of a node that ONNX Runtime can run with CUDA only; None for every other node."""
    if node.domain != DOMAIN:
        return None
    if node.op_type == "MultiHeadAttention":
        # Three inputs run on a CPU too. A key without a value is packed with it, a query without both likewise.
        key, value = (*node.inputs, None, None)[1:3]
        return None if value is not None else _PACKED_QKV if key is None else _PACKED_KV
    return _FORMS.get(node.op_type)


def check(node: ir.Node, form: Form) -> None:
    """Compare a node with its form, as far as types and shapes are known.

    Raises:
        BuildError: The CUDA kernel refuses the node.
    """
    text = _attributes(node, form) or _inputs(node, form) or _shapes(node, form)
    if text:
        name = node.name or node.outputs[0].name
        raise BuildError(f"the {node.op_type} node {name!r} has a form that no kernel takes: {text}.")


def _attributes(node: ir.Node, form: Form) -> str:
    for name, attribute in node.attributes.items():
        if name not in form.attributes:
            return f"attribute {name!r} is unknown; supported: {', '.join(form.attributes) or 'no attributes'}"
        values = form.attributes[name]
        if values is not None and attribute.value not in values.allowed:
            return f"{name} is {attribute.value!r}; supported: {values.words}"
    for name in form.required_attributes:
        if name not in node.attributes:
            return f"attribute {name!r} is missing; required: {', '.join(form.required_attributes)}"
    return ""


def _inputs(node: ir.Node, form: Form) -> str:
    if len(node.inputs) > len(form.inputs):
        return f"it has {len(node.inputs)} inputs; supported: {', '.join(form.inputs)}"
    given = form.by_name(node)
    for name in form.required:
        if name not in given:
            return f"input {name!r} is missing; required: {', '.join(form.required)}"
    for name in form.absent:
        if name in given:
            others = ", ".join(other for other in form.inputs if other not in form.absent)
            return f"input {name!r} is there; supported: {others}"
    for name in form.float32:
        if given[name].dtype not in (None, ir.DataType.FLOAT):
            return f"{name} is {given[name].dtype}; supported: FLOAT"
    return ""


def _shapes(node: ir.Node, form: Form) -> str:
    shapes = {name: value.shape for name, value in form.by_name(node).items() if form.inputs[name]}
    known = {name: shape for name, shape in shapes.items() if shape is not None}
    sizes = {name: attribute.value for name, attribute in node.attributes.items()}
    for name, shape in known.items():
        if not any(_fits(template, shape, sizes) for template in form.inputs[name]):
            given = ", ".join(f"{name} {shape}" for name, shape in known.items())
            supported = ", ".join(f"{name} {' or '.join(form.inputs[name])}" for name in known)
            named = [f" and {name} is {part.value}" for name, part in node.attributes.items() if name in supported]
            return f"the shapes are {given}{''.join(named)}; supported: {supported}"
    return ""


def _fits(template: str, shape: ir.Shape, sizes: dict[str, Any]) -> bool:
    """Compare one shape with a template, and note the sizes of its letters."""
    words = template.strip("[]").split(",")
    if len(words) != len(shape):
        return False
    noted = {**sizes, **{word: int(word) for word in words if word.isdigit()}}
    for word, size in zip(words, shape, strict=True):
        if isinstance(size, int) and noted.setdefault(word, size) != size:
            return False
    sizes.update(noted)
    return True


_NORM_ATTRIBUTES = {
    "activation": Values("0 (none) or 1 (SiLU)", (0, 1)),
    "channels_last": Values("1 (N, H, W, C)", (1,)),
    "epsilon": None,
    "groups": Values("1 or more", range(1, 2**31)),
}
_NORM_INPUTS = {"X": ("[N,H,W,C]",), "gamma": ("[C]",), "beta": ("[C]",)}
_GROUP_NORM = Form(
    inputs=_NORM_INPUTS,
    required=("X", "gamma", "beta"),
    float32=("gamma", "beta"),
    attributes=_NORM_ATTRIBUTES,
    required_attributes=("activation", "groups"),
)
_SKIP_GROUP_NORM = Form(
    inputs={**_NORM_INPUTS, "skip": ("[N,H,W,C]", "[N,1,1,C]", "[N,C]"), "bias": ("[C]",)},
    required=("X", "gamma", "beta", "skip"),
    float32=("gamma", "beta"),
    attributes=_NORM_ATTRIBUTES,
    required_attributes=("activation", "groups"),
)
_NHWC_CONV = Form(
    inputs={"X": ("[N,H,W,C]",), "W": ("[M,kH,kW,C/group]",), "B": ("[M]",)},
    required=("X", "W"),
    attributes=dict.fromkeys(("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")),
)
_BIAS_SPLIT_GELU = Form(inputs={"X": ("[B,S,D]",), "bias": ("[D]",)}, required=("X", "bias"))
_BIAS_ADD = Form(inputs={"X": ("[B,S,C]",), "bias": ("[C]",), "skip": ("[B,S,C]",)}, required=("X", "bias", "skip"))
_ATTENTION_ATTRIBUTES = dict.fromkeys(("mask_filter_value", "num_heads", "scale", "unidirectional"))
# What no diffusion model has (a past, beam search) is not among them.
_ATTENTION_OTHERS: Mapping[str, tuple[str, ...]] = {"bias": (), "key_padding_mask": (), "attention_bias": ()}
_PACKED_QKV = Form(
    inputs={"query": ("[B,L,num_heads,3,H]",), "key": (), "value": (), **_ATTENTION_OTHERS},
    required=("query",),
    attributes=_ATTENTION_ATTRIBUTES,
    required_attributes=("num_heads",),
)
_PACKED_KV = Form(
    inputs={"query": ("[B,S,D]",), "key": ("[B,L,num_heads,2,H]",), "value": (), **_ATTENTION_OTHERS},
    required=("query", "key"),
    absent=("bias",),
    attributes=_ATTENTION_ATTRIBUTES,
    required_attributes=("num_heads",),
)
_FORMS = {
    "GroupNorm": _GROUP_NORM,
    "SkipGroupNorm": _SKIP_GROUP_NORM,
    "NhwcConv": _NHWC_CONV,
    "BiasSplitGelu": _BIAS_SPLIT_GELU,
    "BiasAdd": _BIAS_ADD,
}
