"""Draws scenes: whole batches at once on any device, antialiased, with a little chance in place, size and colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pytest_sdperf.core.scenes import BACKGROUNDS, COLOURS, CROSS_ARM, IMAGE_SIZE, RADII, SHAPES, Scene

# Distance of the two centres from that of the image, and how far each may be off.
_APART = 33.0
_ACROSS = 8.0
_COLOUR_JITTER = 6.0


@dataclass(frozen=True)
class SceneTable:
    """Scenes as numbers, one row per scene, on one device.

    Attributes:
        shape: Index of `SHAPES` [S, 2] of the first and the second thing.
        radius: Smallest and largest radius in pixels [S, 2, 2].
        colour: Of the things, 0 to 255 [S, 2, 3].
        side: Direction from the centre of the image to the first thing, as x and y [S, 2].
        background: 0 to 255 [S, 3].
    """

    shape: torch.Tensor
    radius: torch.Tensor
    colour: torch.Tensor
    side: torch.Tensor
    background: torch.Tensor

    @classmethod
    def of(cls, scenes: Sequence[Scene], device: torch.device | str) -> SceneTable:
        """Translate scenes."""
        sides = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
        things = [(scene.first, scene.second) for scene in scenes]

        def floats(rows: object) -> torch.Tensor:
            return torch.tensor(rows, dtype=torch.float32, device=device)

        return cls(
            shape=torch.tensor([[SHAPES.index(thing.shape) for thing in pair] for pair in things], device=device),
            radius=floats([[RADII[thing.size] for thing in pair] for pair in things]),
            colour=floats([[COLOURS[thing.colour] for thing in pair] for pair in things]),
            side=floats([sides[scene.relation] for scene in scenes]),
            background=floats([BACKGROUNDS[scene.background] for scene in scenes]),
        )

    def rows(self, index: torch.Tensor) -> SceneTable:
        """Return some scenes."""
        return SceneTable(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def draw(scenes: SceneTable, generator: torch.Generator | None = None) -> torch.Tensor:
    """Draw one image of each scene: float32 [S, 3, 128, 128] in [-1, 1], equal for equal states of the generator.

    Without one it is torch's own, which alone a CUDA graph advances.
    """
    count, device = len(scenes.shape), scenes.shape.device

    def chance(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, device=device)

    low, high = scenes.radius.unbind(-1)
    radius = low + (high - low) * chance(count, 2)
    centre = _centres(scenes.side, radius, chance(count, 2, 2) * 2 - 1)
    jitter = (chance(count, 3, 3) * 2 - 1) * _COLOUR_JITTER
    image = (scenes.background + jitter[:, 2])[:, :, None, None].expand(-1, -1, IMAGE_SIZE, IMAGE_SIZE)
    for which in range(2):
        inside = _coverage(scenes.shape[:, which], radius[:, which], centre[:, which])[:, None]
        colour = (scenes.colour[:, which] + jitter[:, which])[:, :, None, None]
        image = image + inside * (colour - image)
    return image.clamp(0, 255) / 127.5 - 1


def _centres(side: torch.Tensor, radius: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    """Return centres in pixels [S, 2, 2]: on opposite sides, inside the image, never nearer than six pixels."""
    signs = torch.stack([side, -side], dim=1)
    along = signs.abs()
    play = (30.0 - radius).clamp(3.0, 8.0)[..., None]
    return IMAGE_SIZE / 2 + signs * _APART + chance * (along * play + (1 - along) * _ACROSS)


def _coverage(shape: torch.Tensor, radius: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return how much of each pixel a shape covers [S, 128, 128]: half at its outline, all or nothing a pixel away."""
    steps = torch.arange(IMAGE_SIZE, device=radius.device) + 0.5
    x = (steps[None, None, :] - centre[:, 0, None, None]).abs()
    y = steps[None, :, None] - centre[:, 1, None, None]
    r = radius[:, None, None]
    arm = CROSS_ARM * r
    outside = {
        "circle": (x**2 + y**2).sqrt() - r,
        "square": torch.maximum(x, y.abs()) - r,
        "triangle": torch.maximum(y - r, (2 * x - y - r) / math.sqrt(5)),
        "cross": torch.minimum(torch.maximum(x - r, y.abs() - arm), torch.maximum(x - arm, y.abs() - r)),
    }
    chosen = torch.stack([outside[name].expand(-1, IMAGE_SIZE, IMAGE_SIZE) for name in SHAPES], dim=1)
    return (0.5 - chosen.gather(1, shape[:, None, None, None].expand(-1, 1, *chosen.shape[2:]))[:, 0]).clamp(0, 1)
