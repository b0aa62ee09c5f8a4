"""The physical floor: how fast the work of a case can be done at most on a device. Pure arithmetic.

Standard library only: the worker that counts the work imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Bytes of one element, and the share of the 16-bit rate that a GPU reaches with it at most (TF32 where there is such).
_SIZES: Mapping[str, tuple[int, float]] = {"float16": (2, 1.0), "bfloat16": (2, 1.0), "float32": (4, 0.5)}
# What may stay in a cache between two calls, so that no memory is read for it: the largest cache of any known GPU.
LARGEST_CACHE_BYTES = 256 * 2**20

# What the rates of a floor are.
MEASURED = "measured"
SHEET = "data sheet"


@dataclass(frozen=True)
class Kernel:
    """One kind of kernel of one size, in a call of a component.

    Attributes:
        kind: `product`, `convolution` or `attention`.
        flops: Operations of one launch; a multiplication and its addition are two.
        elements: Elements that one launch reads and writes at least: operands, weights and result.
        launches: How often it is launched.
    """

    kind: str
    flops: int
    elements: int
    launches: int


@dataclass(frozen=True)
class Work:
    """What one call of a component has to compute and to move.

    Attributes:
        kernels: Matrix products, convolutions and attentions; everything between them can be fused into them.
        weights: Elements of the weights that it reads; of tables of embeddings it reads next to nothing.
        tensors: Elements of the inputs and outputs.
    """

    kernels: tuple[Kernel, ...]
    weights: int
    tensors: int

    @property
    def flops(self) -> int:
        """Operations of one call, attention included."""
        return sum(kernel.flops * kernel.launches for kernel in self.kernels)

    @property
    def attention_flops(self) -> int:
        """Operations of its attentions: the two products without the projections."""
        return sum(kernel.flops * kernel.launches for kernel in self.kernels if kernel.kind == "attention")


@dataclass(frozen=True)
class Part:
    """Calls of one component within a case: its work, how often it is called, in which dtype."""

    work: Work
    calls: int
    dtype: str


@dataclass(frozen=True)
class Peaks:
    """What a device does at most.

    Attributes:
        flops_per_s: In half precision with the accumulation that engines use.
        bytes_per_s: Of its memory, reading and writing together.
    """

    flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Floor:
    """The floor of one case on one device.

    Attributes:
        flops: Operations of the case.
        attention_flops: Those of attentions among them.
        bytes: What weights, inputs and outputs of its calls hold.
        seconds: The least time if every kernel ran at the device's peak and everything else cost nothing.
        basis: What that peak is: `measured` on this device, or `data sheet`.
        bound_s: The time that nothing can beat: operations, or weights that fit no cache, at the rates of the data
            sheet; 0 where there is none.
    """

    flops: float
    attention_flops: float
    bytes: float
    seconds: float
    basis: str
    bound_s: float = 0.0

    def share(self, latency_s: float) -> float:
        """Return the part of the possible speed that a latency reaches: 1 is the floor itself."""
        return self.seconds / latency_s


def floor_of(parts: Iterable[Part], *, peaks: Peaks, basis: str, bound: Peaks | None) -> Floor | None:
    """Return the floor of a case; None for a dtype for which no rate is known (float64).

    Args:
        parts: What it calls.
        peaks: Rates that the device reaches.
        basis: Where they are from.
        bound: Rates that it cannot exceed; None if not known.
    """
    parts = tuple(parts)
    if any(part.dtype not in _SIZES for part in parts):
        return None
    return Floor(
        flops=float(sum(part.work.flops * part.calls for part in parts)),
        attention_flops=float(sum(part.work.attention_flops * part.calls for part in parts)),
        bytes=float(sum(_moved_bytes(part) * part.calls for part in parts)),
        seconds=sum(_least_s(part, peaks) * part.calls for part in parts),
        basis=basis,
        bound_s=sum(_bound_s(part, bound) * part.calls for part in parts) if bound else 0.0,
    )


def _moved_bytes(part: Part) -> int:
    return (part.work.weights + part.work.tensors) * _SIZES[part.dtype][0]


def _least_s(part: Part, peaks: Peaks) -> float:
    """Each kernel takes the longer of computing and moving; what lies between them is fused into them for free."""
    size, rate = _SIZES[part.dtype]
    return sum(
        kernel.launches * max(kernel.flops / (peaks.flops_per_s * rate), kernel.elements * size / peaks.bytes_per_s)
        for kernel in part.work.kernels
    )


def _bound_s(part: Part, bound: Peaks) -> float:
    beyond_cache = max(_moved_bytes(part) - LARGEST_CACHE_BYTES, 0)
    return max(part.work.flops / (bound.flops_per_s * _SIZES[part.dtype][1]), beyond_cache / bound.bytes_per_s)
