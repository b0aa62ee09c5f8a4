"""Values of a reference, found again by what they hold: whatever a fuser named them, and in whichever layout.

A value is looked up by a few projections onto fixed random vectors, which estimate the distance of two arrays without
looking at both; the nearest ones are then compared for good.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch

from pytest_sdperf.core.reference_error import limit
from pytest_sdperf.tracing.definitions import Tensor
from pytest_sdperf.tracing.distances import distance, leaves_range, reference_error_of

# Orders of the axes in which another graph may keep a value; it may also see it in another shape.
_ORDERS = {
    2: ((0, 1), (1, 0)),
    3: ((0, 1, 2), (0, 2, 1)),
    4: ((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3)),
}
_PROJECTIONS = 6
# A projection of so few numbers says how far two arrays are apart within this factor.
_SLACK = 4.0
_CHECKED = 6
# What masks are made of is at least as large, and what they leave is at least this share of a tensor.
_MINUS_INFINITY, _LEFT = 1e4, 0.01
# Scores of an attention that is not fused are no value that a fused graph has, and gigabytes large.
LARGEST = 2**26
WITHOUT_BIAS = "Conv without its bias"  # a role: what a convolution gives where a fuser lets another node add the bias


@dataclasses.dataclass(frozen=True, eq=False)
class Activation:
    """A value of the reference.

    Attributes:
        name: Its name.
        path: Path of the module that it comes from.
        role: What made it: the type of its node.
        exact: What it holds, in the wide type.
        plain: The same, computed by plain torch in the type that is tested.
        reference_error: The distance between the two.
        same: Largest distance of a value that is this one.
        exposed: Whether it is an output of the reference.
    """

    name: str
    path: str
    role: str
    exact: Tensor
    plain: Tensor
    reference_error: float
    same: float
    exposed: bool = False

    @property
    def limit(self) -> float:
        """Largest error that passes here."""
        return limit(self.reference_error)


@dataclasses.dataclass(frozen=True)
class Gap:
    """A value of the reference without a reference error: plain torch is not finite there, and the reference is.

    Attributes:
        name, path, role, exposed: As of a `Activation`.
    """

    name: str
    path: str
    role: str
    exposed: bool


@dataclasses.dataclass(frozen=True)
class ActivationMatch:
    """A place that holds what was looked for.

    Attributes:
        place: The place.
        order: Order of its axes in which it holds that.
        error: How far it is from what was looked for.
    """

    place: Activation
    order: tuple[int, ...]
    error: float

    def exact(self, like: Tensor) -> Tensor:
        """Return its contents in the shape of another tensor."""
        return self.place.exact.permute(self.order).reshape(like.shape)

    def plain(self, like: Tensor) -> Tensor:
        """Return what plain torch has, in the shape and type of another tensor."""
        return self.place.plain.permute(self.order).reshape(like.shape).to(like.dtype)


def is_masked(tensor: Tensor) -> bool:
    """Whether a mask was added: the numbers that it left are lost beside those that stand for minus infinity."""
    sizes = tensor.abs()
    largest = float(sizes.max())
    return largest >= _MINUS_INFINITY and float((sizes < largest / 1000).double().mean()) >= _LEFT


class ActivationIndex:
    """The values of a reference.

    Attributes:
        dtype: The type that is tested.
        places: What others are compared with, in order.
        gaps: Where plain torch is not finite, in order.
    """

    def __init__(self, dtype: str) -> None:
        """Begin without any.

        Args:
            dtype: The type that is tested: nothing can be nearer than its rounding.
        """
        self.dtype = dtype
        self._vectors: dict[int, Tensor] = {}
        self._found: dict[int, list[tuple[Activation, tuple[int, ...]]]] = {}
        self._projections: dict[int, list[Tensor]] = {}
        self._stacked: dict[int, Tensor] = {}
        self.places: list[Activation] = []
        self.gaps: list[Gap] = []

    def add(
        self,
        name: str,
        path: str,
        exact: Tensor,
        plain: Tensor,
        *,
        same: float | None = None,
        role: str = "",
        exposed: bool = False,
    ) -> None:
        """Take a value; one that holds nothing to be recognised by is left out.

        Args:
            name: Its name.
            path: Path of the module that it comes from.
            exact: What it holds.
            plain: The same, computed by plain torch in the type that is tested.
            role: What made it: the type of its node.
            exposed: Whether it is an output of the reference.
            same: Largest distance of a value that is this one; None for the limit of plain torch.
        """
        size = exact.numel()
        if size < 2 or size > LARGEST or plain.numel() != size or not exact.is_floating_point():
            return
        if leaves_range(plain.reshape(exact.shape), exact):
            self.gaps.append(Gap(name, path, role, exposed))
            return
        if is_masked(exact):
            return
        reference_error = reference_error_of(plain.reshape(exact.shape), exact, dtype=self.dtype)
        if not math.isfinite(float(exact.double().norm())) or not bool(exact.any()):
            return
        within = limit(reference_error) if same is None else same
        place = Activation(name, path, role, exact, plain.reshape(exact.shape), reference_error, within, exposed)
        self.places.append(place)
        self._stacked.pop(size, None)
        for order in _ORDERS.get(exact.ndim, (tuple(range(exact.ndim)),)):
            self._found.setdefault(size, []).append((place, order))
            self._projections.setdefault(size, []).append(self._projected(exact.permute(order)))

    def _projected(self, tensor: Tensor) -> Tensor:
        size = tensor.numel()
        if size not in self._vectors:
            generator = torch.Generator().manual_seed(size)
            drawn = torch.randn(_PROJECTIONS, size, generator=generator, dtype=torch.float32)
            self._vectors[size] = drawn.to(tensor.device, tensor.dtype)
        return self._vectors[size] @ tensor.reshape(-1)

    def near(self, tensor: Tensor) -> Iterator[ActivationMatch]:
        """Yield the values of the same size, nearest first; how far they are is an estimate."""
        size = tensor.numel()
        if size not in self._projections or not bool(torch.isfinite(tensor).all()):
            return
        if size not in self._stacked:
            self._stacked[size] = torch.stack(self._projections[size])
        every = self._stacked[size]
        norm = float(tensor.norm())
        away = (every - self._projected(tensor)).norm(dim=1) / (math.sqrt(_PROJECTIONS) * (norm or 1.0))
        for index in torch.argsort(away).tolist():
            place, order = self._found[size][index]
            yield ActivationMatch(place, order, float(away[index]))

    def find(self, tensor: Tensor, *, name: str = "") -> ActivationMatch | None:
        """Return the place that holds a value; None if there is none.

        Args:
            tensor: In the wide type.
            name: Of several equal ones, that of this name.
        """
        best: ActivationMatch | None = None
        for number, near in enumerate(self.near(tensor)):
            largest = near.place.same
            if number >= _CHECKED or near.error > _SLACK * largest:
                break
            error = distance(tensor.reshape(-1), near.place.exact.permute(near.order).reshape(-1))
            if error > largest:
                continue
            found = dataclasses.replace(near, error=error)
            if best is None or error < 0.5 * best.error or (name == near.place.name and error <= 2 * best.error):
                best = found
        return best
