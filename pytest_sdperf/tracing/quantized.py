"""What the operators of ONNX on quantized numbers mean, written with torch.

Sums of products of integers are computed in float64, which holds each of them whole, on every device.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import onnx_ir as ir
import torch
import torch.nn.functional as F  # noqa: N812

Tensor: TypeAlias = torch.Tensor


def quantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *,
    axis: int = 1, block_size: int = 0, output_dtype: int = 0, **_: Any,
) -> Tensor:  # fmt: skip
    """Return the nearest whole numbers of steps, even ones where two are as near, as far as the type reaches."""
    kind = (
        zero.dtype if zero is not None else getattr(torch, ir.DataType(output_dtype or ir.DataType.UINT8).name.lower())
    )
    steps = torch.round(x / _along(scale, x, axis, block_size))
    return _saturated(steps if zero is None else steps + _along(zero, x, axis, block_size), kind)


def dequantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, **_: Any
) -> Tensor:
    """Return what quantized numbers stand for; those of 8 bits may be floating-point numbers."""
    steps = x if x.is_floating_point() else x.to(torch.int64)
    if zero is not None:
        steps = steps - _along(zero.to(steps.dtype), x, axis, block_size)
    return steps.to(scale.dtype) * _along(scale, x, axis, block_size)


def quantize_dynamically(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return bytes, and the step and the zero point that fit the range of these very numbers and 0."""
    low, high = (torch.clamp(x.min(), max=0), torch.clamp(x.max(), min=0))
    scale = torch.where(high > low, (high - low) / 255, torch.ones_like(low))
    zero = _saturated(torch.round(-low / scale), torch.uint8)
    return quantize(x, scale, zero), scale, zero


def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """Return the product of two matrices of integers; a zero point may be of each row of the first, or column."""
    return torch.matmul(_whole(a, _of_rows(a_zero)), _whole(b, b_zero)).to(torch.int32)


def conv_integer(
    x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, **says: Any
) -> Tensor:
    """Return the convolution of integers; a zero point of the weights may be of each channel of the result."""
    return _convolved(x, w, x_zero, w_zero, **says).to(torch.int32)


def qlinear_matmul(*inputs: Tensor) -> Tensor:
    """Return the product of two quantized matrices, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, *of_result = inputs
    product = torch.matmul(_whole(a, _of_rows(a_zero)), _whole(b, b_zero))
    return _requantized(product, _of_rows(a_scale) * b_scale, *of_result)


def qlinear_conv(*inputs: Tensor, **says: Any) -> Tensor:
    """Return the convolution of quantized numbers, quantized; its bias counts steps of the product."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
    found = _convolved(x, w, x_zero, w_zero, **says)
    if bias and bias[0] is not None:
        found = found + bias[0].reshape(1, -1, 1, 1)
    return _requantized(found, x_scale * w_scale.reshape(1, -1, 1, 1), y_scale, y_zero)


def _along(each: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Return a step or zero point for each element: of the whole tensor, of an axis, or of blocks along it."""
    if block_size:
        return each.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])
    return each.reshape([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)]) if each.ndim else each


def _saturated(steps: Tensor, kind: torch.dtype) -> Tensor:
    assert not kind.is_floating_point
    return steps.clamp(torch.iinfo(kind).min, torch.iinfo(kind).max).to(kind)


def _whole(x: Tensor, zero: Tensor | None) -> Tensor:
    return x.double() if zero is None else x.double() - zero.double()


def _of_rows(each: Any) -> Any:
    return each[:, None] if each is not None and each.ndim == 1 else each


def _convolved(
    x: Tensor, w: Tensor, x_zero: Tensor | None, w_zero: Tensor | None, *, pads: Any = (0, 0, 0, 0),
    strides: Any = (1, 1), dilations: Any = (1, 1), group: int = 1, auto_pad: str = "NOTSET", **_: Any,
) -> Tensor:  # fmt: skip
    assert auto_pad in ("NOTSET", "VALID")
    assert x.ndim == 4
    top, left, bottom, right = pads
    zero = None if w_zero is None else w_zero.reshape(-1, 1, 1, 1)
    image = F.pad(_whole(x, x_zero), (left, right, top, bottom))
    return F.conv2d(image, _whole(w, zero), None, tuple(strides), 0, tuple(dilations), group)


def _requantized(steps: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor:
    assert y_scale.numel() == 1
    factor = scale.double() / y_scale.double().reshape(())
    return _saturated(torch.round(steps * factor) + y_zero.reshape(()), y_zero.dtype)
