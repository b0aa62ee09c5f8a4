"""What the operators of `com.microsoft` mean that fusers put into diffusion models, written with torch.

GroupNorm and BiasSplitGelu compute in float32 whatever the type of their input, as the CUDA kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from pytest_sdperf.tracing import quantized
from pytest_sdperf.tracing.definitions import DEFINITIONS, Definition, Tensor, attention

DOMAIN = "com.microsoft"


def _at_least_single(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _heads(x: Tensor, count: int) -> Tensor:
    """Return (batch, heads, tokens, size) of (batch, tokens, heads * size)."""
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2) if x.ndim == 3 else x


def _multi_head(
    *inputs: Tensor | None, num_heads: int, scale: float = 0.0, unidirectional: int = 0, **_: Any
) -> Tensor:
    query, key, value, bias, padding, added = (*inputs, *[None] * 6)[:6]
    assert padding is None
    assert not any(each is not None for each in inputs[6:])
    assert query is not None
    if query.ndim == 5:  # packed with key and value: (batch, tokens, heads, 3, size)
        query, key, value = (part.flatten(2) for part in query.unbind(3))
    elif key is not None and key.ndim == 5:
        key, value = (part.flatten(2) for part in key.unbind(3))
    assert key is not None
    assert value is not None
    parts: list[Tensor] = [query, key, value]
    if bias is not None:
        own = torch.split(bias, [part.shape[-1] for part in parts])
        parts = [part + each for part, each in zip(parts, own, strict=True)]
    return _attended(parts, added, num_heads, scale=scale, is_causal=unidirectional)


def _self_attention(
    *inputs: Tensor | None, num_heads: int, scale: float = 0.0, unidirectional: int = 0, **_: Any
) -> Tensor:
    x, weights, bias, padding, past, added = (*inputs, *[None] * 6)[:6]
    assert padding is None
    assert past is None
    assert x is not None
    assert weights is not None
    product = x @ weights if bias is None else x @ weights + bias
    return _attended(product.chunk(3, -1), added, num_heads, scale=scale, is_causal=unidirectional)


def _attended(parts: Sequence[Tensor], added: Tensor | None, heads: int, *, scale: float, is_causal: int) -> Tensor:
    q, k, v = (_heads(part, heads) for part in parts)
    return attention(q, k, v, added, scale=scale or None, is_causal=is_causal).transpose(1, 2).flatten(2)


def _group_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, epsilon: float = 1e-5, activation: int = 0, **_: Any
) -> Tensor:
    wide = _at_least_single(x).permute(0, 3, 1, 2)
    normal = F.group_norm(wide, groups, gamma.to(wide.dtype), beta.to(wide.dtype), epsilon)
    return (F.silu(normal) if activation else normal).permute(0, 2, 3, 1).to(x.dtype)


def _skip_group_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, skip: Tensor, bias: Tensor | None = None, **says: Any
) -> tuple[Tensor, Tensor]:
    added = x if bias is None else x + bias
    if skip.ndim == 4:
        added = added + skip
    else:
        rows = (-1, gamma.numel())
        # A skip of (batch, channels) is one row for each image.
        own = skip[:, None] if skip.ndim == 2 and len(skip) == len(x) else skip.reshape(rows)
        added = (added.flatten(1, 2) + own).reshape(x.shape)
    return _group_norm(added, gamma, beta, **says), added


def _skip_layer_norm(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
) -> tuple[Tensor, None, None, Tensor]:
    added = x + skip if bias is None else x + skip + bias
    return F.layer_norm(added, gamma.shape, gamma, beta, epsilon), None, None, added


def _nhwc_conv(x: Tensor, w: Tensor, b: Tensor | None = None, **says: Any) -> Tensor:
    found: Tensor = DEFINITIONS["Conv"](x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, **says)
    return found.permute(0, 2, 3, 1)


def _bias_split_gelu(x: Tensor, bias: Tensor) -> Tensor:
    left, right = _at_least_single(x + bias).chunk(2, -1)
    return (left * F.gelu(right)).to(x.dtype)


_ACTIVATIONS: Mapping[str, Callable[..., Tensor]] = {
    "": lambda x: x,
    "Clip": torch.clamp,
    "HardSigmoid": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1),
    "LeakyRelu": F.leaky_relu,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
}


def _fused_conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, added: Tensor | None = None, *,
    activation: str = "", activation_params: Sequence[float] = (), **says: Any,
) -> Tensor:  # fmt: skip
    found: Tensor = DEFINITIONS["Conv"](x, w, b, **says)
    return _ACTIVATIONS[activation](found if added is None else found + added, *activation_params)


def _fused_matmul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, **says: int,  # noqa: N803
) -> Tensor:  # fmt: skip
    assert not any(says.values())  # batches that are transposed, too
    return alpha * torch.matmul(a.mT if transA else a, b.mT if transB else b)


CONTRIB: Mapping[str, Definition] = {
    "Attention": _self_attention,
    "BiasAdd": lambda x, bias, skip: x + bias + skip,
    "BiasGelu": lambda x, bias: F.gelu(x + bias),
    "BiasSplitGelu": _bias_split_gelu,
    "DequantizeLinear": quantized.dequantize,
    "FastGelu": lambda x, bias=None: F.gelu(x if bias is None else x + bias, approximate="tanh"),
    "FusedConv": _fused_conv,
    "FusedMatMul": _fused_matmul,
    "Gelu": F.gelu,
    "GroupNorm": _group_norm,
    "MultiHeadAttention": _multi_head,
    "NhwcConv": _nhwc_conv,
    "QuantizeLinear": quantized.quantize,
    "QuickGelu": lambda x, *, alpha=1.702: x * torch.sigmoid(alpha * x),
    "SkipGroupNorm": _skip_group_norm,
    "SkipLayerNormalization": _skip_layer_norm,
}
