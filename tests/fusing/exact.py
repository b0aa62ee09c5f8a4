"""An ONNX graph computed in float64 by torch: what every build of it is compared with.

Written without the code under test, and without onnxruntime: it knows the operators that exporters emit for diffusion
models and raises for any other.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F  # noqa: N812


def evaluate(model, inputs, *, rounded=False):
    """Return the outputs of a model for inputs by name; floating-point numbers are float64 all the way.

    `rounded`: but every result of a node is rounded to the type that it has in the graph, as the best kernels do.
    """
    graph = model.graph
    known = {value.name: _exact(inputs[value.name]) for value in graph.inputs}
    weights = {name: value.const_value for name, value in graph.initializers.items()}

    def get(value):
        if value is None:
            return None
        if value.name not in known:
            known[value.name] = _exact(weights[value.name].numpy())
        return known[value.name]

    for node in graph:
        assert node.domain == "", f"no definition of {node.domain}::{node.op_type}"
        says = {name: attribute.value for name, attribute in node.attributes.items()}
        if node.op_type == "Constant":
            results = _exact(next(iter(node.attributes.values())).as_tensor().numpy())
        else:
            results = _OPS[node.op_type](*(get(value) for value in node.inputs), **says)
        results = results if isinstance(results, tuple) else (results,)
        for value, result in zip(node.outputs, results, strict=False):
            known[value.name] = _round(result, value.dtype) if rounded else result
    return [get(value).numpy() for value in graph.outputs]


def _exact(array):
    tensor = torch.from_numpy(np.array(array))
    return tensor.double() if tensor.is_floating_point() else tensor


def _round(tensor, dtype):
    return tensor.half().double() if dtype == ir.DataType.FLOAT16 else tensor


def _ints(tensor):
    return [int(number) for number in tensor]


def _cast(x, to):
    kind = ir.DataType(to).numpy()
    return x.double() if np.issubdtype(kind, np.floating) else x.to(getattr(torch, np.dtype(kind).name))


def _divide(a, b):
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _conv(x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1), group=1, **_):
    top, left, bottom, right = pads
    return F.conv2d(F.pad(x, (left, right, top, bottom)), w, b, strides, 0, dilations, group)


def _gemm(a, b, c=0, *, transA=0, transB=0, alpha=1.0, beta=1.0):  # noqa: N803 as ONNX spells them
    return alpha * (a.T if transA else a) @ (b.T if transB else b) + beta * c


def _instances(x, scale, shift, *, epsilon=1e-5):
    return F.instance_norm(x, weight=scale, bias=shift, eps=epsilon)


def _reshape(x, shape, *, allowzero=0):
    return x.reshape([x.shape[i] if size == 0 and not allowzero else size for i, size in enumerate(_ints(shape))])


def _slice(x, starts, ends, axes=None, steps=None):
    axes = range(len(starts)) if axes is None else _ints(axes)
    steps = [1] * len(starts) if steps is None else _ints(steps)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(_ints(starts), _ints(ends), axes, steps, strict=True):
        index[axis] = slice(*slice(start, end, step).indices(x.shape[axis]))
    return x[tuple(index)]


def _squeeze(x, axes=None):
    return x.squeeze() if axes is None else x.squeeze(tuple(_ints(axes)))


def _unsqueeze(x, axes):
    for axis in sorted(_ints(axes)):
        x = x.unsqueeze(axis)
    return x


def _split(x, sizes=None, *, axis=0, num_outputs=2):
    return torch.split(x, _ints(sizes), axis) if sizes is not None else torch.chunk(x, num_outputs, axis)


def _enlarge(x, corners=None, scales=None, sizes=None, *, mode="nearest", **says):
    height, width = _ints(sizes)[2:] if sizes is not None else _ints(scales[2:] * torch.tensor(x.shape[2:]))
    if mode == "linear":
        assert says["coordinate_transformation_mode"] == "half_pixel"
        return F.interpolate(x, (height, width), mode="bilinear", align_corners=False)
    assert (says["nearest_mode"], says["coordinate_transformation_mode"]) == ("floor", "asymmetric")
    rows = torch.arange(height) * x.shape[2] // height
    return x[:, :, rows][:, :, :, torch.arange(width) * x.shape[3] // width]


def _attention(q, k, v, mask=None, *, scale=None, is_causal=0, softcap=0.0, qk_matmul_output_mode=0):
    assert not softcap
    assert not qk_matmul_output_mode
    hidden = torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype)
    if is_causal:
        hidden = hidden.masked_fill(torch.ones_like(hidden).triu(1) > 0, -torch.inf)
    if mask is not None:
        hidden = hidden + (
            torch.zeros_like(hidden).masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else mask
        )
    return F.scaled_dot_product_attention(q, k, v, hidden, scale=scale)


def _groups(x, w, b, *, num_groups, epsilon=1e-5, stash_type=1):
    return F.group_norm(x, num_groups, w, b, epsilon)


def _filled(shape, *, value=None):
    return _exact(np.zeros(1, np.float32) if value is None else value.numpy()).expand(_ints(shape)).clone()


def _pad(x, pads, value=None, *, mode="constant"):
    sizes = [size for pair in list(zip(*np.split(np.array(_ints(pads)), 2), strict=True))[::-1] for size in pair]
    return F.pad(x, sizes, value=float(value or 0)) if mode == "constant" else F.pad(x, sizes[: 2 * x.ndim - 4], mode)


_OPS = {
    "Abs": torch.abs,
    "Add": torch.add,
    "ArgMax": lambda x, *, axis, keepdims, select_last_index: x.argmax(axis, keepdim=bool(keepdims)),
    "Attention": _attention,
    "Cast": _cast,
    "Clip": lambda x, low=None, high=None: torch.clamp(x, low, high),
    "Concat": lambda *arrays, axis: torch.cat(arrays, axis),
    "ConstantOfShape": _filled,
    "Conv": _conv,
    "Cos": torch.cos,
    "Div": _divide,
    "Dropout": lambda x, *_: (x, torch.ones_like(x, dtype=torch.bool)),
    "Equal": torch.eq,
    "Erf": torch.erf,
    "Expand": lambda x, shape: x * torch.ones(_ints(shape), dtype=x.dtype),
    "Gather": lambda x, indices, *, axis=0: x[(slice(None),) * axis + (indices,)],
    "GatherND": lambda x, indices, *, batch_dims: x[tuple(indices.movedim(-1, 0))],
    "Gelu": lambda x, *, approximate="none": F.gelu(x, approximate=approximate),
    "Gemm": _gemm,
    "GroupNormalization": _groups,
    "Identity": lambda x: x,
    "InstanceNormalization": _instances,
    "IsNaN": torch.isnan,
    "LayerNormalization": lambda x, w, b=None, *, epsilon=1e-5, **_: F.layer_norm(x, w.shape, w, b, epsilon),
    "MatMul": torch.matmul,
    "Max": torch.maximum,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Pad": _pad,
    "Pow": torch.pow,
    "Range": lambda start, limit, delta: torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype),
    "ReduceMean": lambda x, axes=None, *, keepdims=1: x.mean(_ints(axes) if axes is not None else None, bool(keepdims)),
    "ReduceSum": lambda x, axes, *, keepdims=1: x.sum(_ints(axes), bool(keepdims)),
    "Relu": torch.relu,
    "Reshape": _reshape,
    "Resize": _enlarge,
    "Shape": lambda x, *, start=0, end=None: torch.tensor(x.shape[start:end]),
    "Sigmoid": torch.sigmoid,
    "Sin": torch.sin,
    "Slice": _slice,
    "Softmax": lambda x, *, axis=-1: torch.softmax(x, axis),
    "Split": _split,
    "Sqrt": torch.sqrt,
    "Squeeze": _squeeze,
    "Sub": torch.sub,
    "Tanh": torch.tanh,
    "Transpose": lambda x, *, perm=None: x.permute(perm or tuple(range(x.ndim))[::-1]),
    "Trilu": lambda x, k=None, *, upper=1: (torch.triu if upper else torch.tril)(x, int(k or 0)),
    "Unsqueeze": _unsqueeze,
    "Where": torch.where,
}
