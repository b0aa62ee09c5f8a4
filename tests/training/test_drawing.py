from __future__ import annotations

import numpy as np
import pytest
import torch
from drawings import drawn, some_scenes

from pytest_sdperf.core.scenes import BACKGROUNDS, COLOURS, RADII, SIZES, all_scenes

SCENES = all_scenes()


def test_equal_seeds_give_equal_drawings():
    scenes = some_scenes(SCENES, 6)
    assert np.array_equal(drawn(scenes, seed=3), drawn(scenes, seed=3))
    assert not np.array_equal(drawn(scenes, seed=3), drawn(scenes, seed=4))


def test_drawings_are_images():
    images = drawn(some_scenes(SCENES, 20))
    assert images.shape == (20, 3, 128, 128)
    assert images.dtype == np.float32
    assert images.min() >= -1
    assert images.max() <= 1


def test_outlines_are_antialiased():
    scene = next(s for s in SCENES if "large red circle left of a small blue square on a black" in s.caption)
    (image,) = drawn([scene])
    red = (image[0] + 1) * 127.5
    low, high = BACKGROUNDS["black"][0] + 8, COLOURS["red"][0] - 8
    between = (red[:, :64] > low) & (red[:, :64] < high)
    assert 60 < between.sum() < 250  # about a pixel all round


@pytest.mark.parametrize("size", SIZES)
def test_a_square_is_as_large_as_said(size):
    scene = next(s for s in SCENES if f"a {size} red square above a small green circle on a white" in s.caption)
    for seed in range(5):
        (image,) = drawn([scene], seed=seed)
        covered = (1 - (image[1] + 1) * 127.5 / BACKGROUNDS["white"][1]).clip(0)[:64].sum() / (1 - 40 / 245)
        low, high = RADII[size]
        assert 0.97 * (2 * low) ** 2 < covered < 1.1 * (2 * high) ** 2


def test_the_table_of_a_choice_is_the_choice_of_the_table():
    from drawing import SceneTable

    chosen = torch.tensor([5, 700, 22_000])
    whole, part = SceneTable.of(SCENES, "cpu").rows(chosen), SceneTable.of([SCENES[i] for i in chosen], "cpu")
    for name in SceneTable.__dataclass_fields__:
        assert torch.equal(getattr(whole, name), getattr(part, name))
