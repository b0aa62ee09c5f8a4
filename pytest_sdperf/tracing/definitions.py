"""What the operators of ONNX mean, written with torch: those that exporters emit for diffusion models.

Written without the fusers and without onnxruntime, so that both can be judged by it. A definition computes in the type
of what it is given: in float64 it is what every build of a graph is compared with, in half precision it is plain torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F  # noqa: N812

from pytest_sdperf.tracing import quantized
from pytest_sdperf.tracing.resizing import resize

Tensor: TypeAlias = torch.Tensor
Definition = Callable[..., Any]


def ints(tensor: Tensor | Sequence[int]) -> list[int]:
    """Return the elements of a tensor of integers."""
    return [int(number) for number in tensor]


def _cast(x: Tensor, *, to: int, **_: Any) -> Tensor:
    kind = ir.DataType(to).numpy()
    # A dtype is the computer's to choose, see `Computer`.
    if x.is_floating_point() and np.issubdtype(kind, np.floating):
        return x
    dtype: torch.dtype = getattr(torch, kind.name)
    return x.to(dtype)


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    group: int = 1,
    auto_pad: str = "NOTSET",
    **_: Any,
) -> Tensor:
    assert auto_pad in ("NOTSET", "VALID")
    top, left, bottom, right = pads
    return F.conv2d(F.pad(x, (left, right, top, bottom)), w, b, tuple(strides), 0, tuple(dilations), group)


def _gemm(a: Tensor, b: Tensor, c: Any = 0, *, alpha: float = 1.0, beta: float = 1.0, **says: int) -> Tensor:
    product = torch.matmul(a.T if says.get("transA") else a, b.T if says.get("transB") else b)
    return torch.add(alpha * product, beta * c)


def _instances(x: Tensor, scale: Tensor, shift: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=shift, eps=epsilon)


def _reshape(x: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    return x.reshape([x.shape[i] if size == 0 and not allowzero else size for i, size in enumerate(ints(shape))])


def _slice(x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None) -> Tensor:
    along = list(range(len(starts))) if axes is None else ints(axes)
    by = [1] * len(starts) if steps is None else ints(steps)
    for start, end, axis, step in zip(ints(starts), ints(ends), along, by, strict=True):
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        if step > 0:
            x = x[(slice(None),) * (axis % x.ndim) + (slice(places.start, places.stop, step),)]
        else:  # torch's own slices go forwards alone
            x = x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))
    return x


def _squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(tuple(ints(axes)))


def _unsqueeze(x: Tensor, axes: Tensor) -> Tensor:
    for axis in sorted(ints(axes)):
        x = x.unsqueeze(axis)
    return x


def _split(x: Tensor, sizes: Tensor | None = None, *, axis: int = 0, num_outputs: int = 2) -> tuple[Tensor, ...]:
    return torch.split(x, ints(sizes), axis) if sizes is not None else torch.chunk(x, num_outputs, axis)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    is_causal: int = 0,
    softcap: float = 0.0,
    qk_matmul_output_mode: int = 0,
) -> Tensor:
    """Return the attention of heads (batch, heads, tokens, size); a mask is added, or boolean: what may be seen."""
    assert not softcap
    assert not qk_matmul_output_mode
    hidden = torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype, device=q.device)
    if is_causal:
        hidden = hidden.masked_fill(torch.ones_like(hidden).triu(1) > 0, -torch.inf)
    if mask is not None:
        seen = torch.zeros_like(hidden).masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else mask
        hidden = hidden + seen
    return F.scaled_dot_product_attention(q, k, v, hidden, scale=scale)


def _groups(x: Tensor, w: Tensor, b: Tensor, *, num_groups: int, epsilon: float = 1e-5, **_: int) -> Tensor:
    return F.group_norm(x, num_groups, w, b, epsilon)


def _filled(shape: Tensor, *, value: Any = None) -> Tensor:
    content = torch.zeros(1) if value is None else torch.from_numpy(np.array(value.numpy()))
    return content.expand(ints(shape)).clone()


def _pad(x: Tensor, pads: Tensor, value: Tensor | None = None, *, mode: str = "constant") -> Tensor:
    begins, ends = np.split(np.array(ints(pads)), 2)
    sizes = [int(size) for pair in list(zip(begins, ends, strict=True))[::-1] for size in pair]
    return F.pad(x, sizes, value=float(value or 0)) if mode == "constant" else F.pad(x, sizes[: 2 * x.ndim - 4], mode)


DEFINITIONS: Mapping[str, Definition] = {
    "Abs": torch.abs,
    "Add": torch.add,
    "And": torch.logical_and,
    "ArgMax": lambda x, *, axis, keepdims, select_last_index: x.argmax(axis, keepdim=bool(keepdims)),
    "Attention": attention,
    "Cast": _cast,
    "CastLike": lambda x, like: x if x.is_floating_point() and like.is_floating_point() else x.to(like.dtype),
    "Ceil": torch.ceil,
    "Clip": lambda x, low=None, high=None: torch.clamp(x, low, high),
    "Concat": lambda *arrays, axis: torch.cat(arrays, axis),
    "ConstantOfShape": _filled,
    "Conv": _conv,
    "ConvInteger": quantized.conv_integer,
    "Cos": torch.cos,
    "DequantizeLinear": quantized.dequantize,
    "Div": _divide,
    "Dropout": lambda x, *_: (x, torch.ones_like(x, dtype=torch.bool)),
    "DynamicQuantizeLinear": quantized.quantize_dynamically,
    "Equal": torch.eq,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Expand": lambda x, shape: x * torch.ones(ints(shape), dtype=x.dtype, device=x.device),
    "Flatten": lambda x, *, axis=1: x.reshape(int(np.prod(x.shape[: axis + x.ndim if axis < 0 else axis])), -1),
    "Floor": torch.floor,
    "Gather": lambda x, indices, *, axis=0: x[(slice(None),) * axis + (indices,)],
    "GatherND": lambda x, indices, *, batch_dims: x[tuple(indices.movedim(-1, 0))],
    "Gelu": lambda x, *, approximate="none": F.gelu(x, approximate=approximate),
    "Gemm": _gemm,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "GroupNormalization": _groups,
    "Identity": lambda x: x,
    "InstanceNormalization": _instances,
    "IsNaN": torch.isnan,
    "LayerNormalization": lambda x, w, b=None, *, epsilon=1e-5, **_: F.layer_norm(x, w.shape, w, b, epsilon),
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "MatMul": torch.matmul,
    "MatMulInteger": quantized.matmul_integer,
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Or": torch.logical_or,
    "Pad": _pad,
    "Pow": torch.pow,
    "QLinearConv": quantized.qlinear_conv,
    "QLinearMatMul": quantized.qlinear_matmul,
    "QuantizeLinear": quantized.quantize,
    "Range": lambda start, limit, delta: torch.arange(
        start.item(), limit.item(), delta.item(), dtype=start.dtype, device=start.device
    ),
    "ReduceMean": lambda x, axes=None, *, keepdims=1: x.mean(ints(axes) if axes is not None else None, bool(keepdims)),
    "ReduceSum": lambda x, axes, *, keepdims=1: x.sum(ints(axes), bool(keepdims)),
    "Relu": torch.relu,
    "Reshape": _reshape,
    "Resize": resize,
    "Shape": lambda x, *, start=0, end=None: torch.tensor(x.shape[start:end], device=x.device),
    "Sigmoid": torch.sigmoid,
    "Sin": torch.sin,
    "Slice": _slice,
    "Softmax": lambda x, *, axis=-1: torch.softmax(x, axis),
    "Split": _split,
    "Sqrt": torch.sqrt,
    "Squeeze": _squeeze,
    "Sub": torch.sub,
    "Tanh": torch.tanh,
    "Transpose": lambda x, *, perm=None: x.permute(tuple(perm or range(x.ndim)[::-1])),
    "Trilu": lambda x, k=None, *, upper=1: (torch.triu if upper else torch.tril)(x, int(k or 0)),
    "Unsqueeze": _unsqueeze,
    "Where": torch.where,
}
