"""Graphs stored without their weights: small files that keep the structure, and weights drawn to run it."""

from __future__ import annotations

import functools
import gzip
import hashlib
import lzma
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from weight_roles import Role, Use, weight_use

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.weightless import is_missing, without_data

SMALL = 64
_BIAS_BOUND = 0.1
_NORM_BOUND = 0.5


def strip(model: ir.Model) -> None:
    """Remove the data of every weight in place; what stays is read into memory.

    A weight is a floating-point initializer with more than 64 elements and more than two distinct values that is used
    as a weight only (`weight_use`). Therefore shapes and axes stay, and scales, causal masks (0 and a large negative
    number), the ones and zeros of a norm without parameters, and the frequencies of a timestep embedding.
    """
    for value in _initializers(model):
        tensor = value.const_value
        if tensor is None or is_missing(tensor):
            continue
        if tensor.dtype.is_floating_point() and tensor.size > SMALL and weight_use(value) and _is_varied(tensor):
            value.const_value = without_data(tensor, value.name or "")
        elif isinstance(tensor, ir.ExternalTensor):
            value.const_value = ir.Tensor(np.array(tensor.numpy()), dtype=tensor.dtype, name=value.name)


def draw(model: ir.Model, *, seed: int = 0) -> None:
    """Give every weight without data values, in place; each is drawn when it is first read, and then kept.

    Values depend on the seed and the weight's name and shape. They are uniform: matrices keep the variance of what
    flows through them, scales of norms lie in [0.5, 1.5], their shifts in [-0.5, 0.5], other biases in [-0.1, 0.1]
    and rows of tables have variance 1. So activations stay far inside float16, and two exchanged norms show.
    """
    for value in _initializers(model):
        tensor = value.const_value
        if tensor is not None and is_missing(tensor):
            # A graph that was rewritten since may use a weight in a way that says nothing about its size.
            use = weight_use(value) or _guessed(tensor)
            make = functools.partial(_drawn, value.name or "", like=tensor, use=use, seed=seed)
            shape = ir.Shape(tensor.shape.numpy())
            value.const_value = ir.LazyTensor(make, dtype=tensor.dtype, shape=shape, cache=True, name=value.name)


def save_stripped(model: ir.Model, path: Path) -> None:
    """Write a model without weights as one compressed file: equal bytes for equal models.

    Args:
        model: What `strip` left; a weight that still has data is stored with it.
        path: A name that ends in `.xz` or `.gz`.
    """
    data = ir.to_proto(model).SerializeToString(deterministic=True)
    path.write_bytes(_compress(path, data))


def load_stripped(path: Path) -> ir.Model:
    """Read what `save_stripped` wrote; nothing but this file is read, now or later.

    Raises:
        BuildError: Data of the model lies in another file.
    """
    model: ir.Model = ir.from_proto(onnx.ModelProto.FromString(_decompress(path)))
    for tensor in _stored_tensors(model):
        if isinstance(tensor, ir.ExternalTensor) and not is_missing(tensor):
            raise BuildError(
                f"{path} keeps {tensor.name!r} in another file ({tensor.location}). Give a file that "
                f"save_stripped wrote, or load this one with onnx_ir.load."
            )
    return model


def _initializers(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.initializers.values()


def _stored_tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    yield from (value.const_value for value in _initializers(model) if value.const_value is not None)
    parts: tuple[ir.Graph | ir.Function, ...] = (model.graph, *model.functions.values())
    for part in parts:
        for node in part.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                    yield attribute.value  # `as_tensor` looks at every method of it
                elif attribute.type is ir.AttributeType.TENSORS and not attribute.is_ref():
                    yield from attribute.as_tensors()


def _is_varied(tensor: ir.TensorProtocol) -> bool:
    """Say whether a tensor has more than two distinct values."""
    flat = tensor.numpy().reshape(-1)
    for part in (flat[:1024], flat):  # nearly always the first elements tell
        others = part[part != flat[0]]
        if (others != others[:1]).any():
            return True
    return False


def _guessed(tensor: ir.TensorProtocol) -> Use:
    sizes = tensor.shape.numpy()
    return Use(Role.MATRIX, fan_in=math.prod(sizes[1:])) if len(sizes) > 1 else Use(Role.BIAS)


def _drawn(name: str, *, like: ir.TensorProtocol, use: Use, seed: int) -> ir.TensorProtocol:
    shape = tuple(like.shape.numpy())
    digest = hashlib.sha256(f"{seed} {name} {list(shape)}".encode()).digest()
    centre, bound = {
        Role.MATRIX: (0.0, math.sqrt(3 / max(use.fan_in, 1))),
        Role.TABLE: (0.0, math.sqrt(3)),
        Role.SCALE: (1.0, _NORM_BOUND),
        Role.SHIFT: (0.0, _NORM_BOUND),
        Role.BIAS: (0.0, _BIAS_BOUND),
    }[use.role]
    array = np.random.default_rng(int.from_bytes(digest[:8], "little")).random(shape, dtype=np.float32)
    array *= 2 * bound
    array += centre - bound
    return ir.Tensor(array.astype(like.dtype.numpy(), copy=False), dtype=like.dtype, name=name)


def _compress(path: Path, data: bytes) -> bytes:
    if _ending(path) == ".xz":
        return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
    return gzip.compress(data, mtime=0)


def _decompress(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if _ending(path) == ".xz" else gzip.decompress(data)


def _ending(path: Path) -> str:
    if path.suffix not in {".xz", ".gz"}:
        raise ValueError(f"{path} ends in {path.suffix!r}; models without weights are files that end in .xz or .gz")
    return path.suffix
