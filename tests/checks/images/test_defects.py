"""Pictures that are wrong at a glance get their name, and pictures that are right get none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sdperf.checks.images.defects import TRAITS, Defect, find_defect

SIDE = 128


def scene(seed=0, side=SIDE):
    """Return a disc and a bar on a background that brightens from left to right: things that have a place."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    picture = np.stack([x * 1.2 - 0.6] * 3)
    disc = (x - random.uniform(0.3, 0.7)) ** 2 + (y - random.uniform(0.3, 0.7)) ** 2 < 0.04
    picture[:, disc] = random.uniform(-0.8, 0.8, (3, 1))
    picture[:, (x > 0.1) & (x < 0.25)] = random.uniform(-0.8, 0.8, (3, 1))
    return picture


def noise(seed=0, grain=1, side=SIDE):
    drawn = np.random.default_rng(seed).normal(0, 0.5, (3, side // grain, side // grain))
    return drawn.repeat(grain, 1).repeat(grain, 2)


def name_of(obtained, reference=None):
    found = find_defect(obtained[None], None if reference is None else reference[None])
    return found.name if found else None


SCENE = scene()
SPOILED = {
    "NaN": np.where(np.arange(SIDE) == 3, np.nan, SCENE),
    "black": np.full_like(SCENE, -1.0),
    "flat": np.full_like(SCENE, 0.2) + 0.01 * SCENE,
    "saturated": SCENE * 20,
    "noise": noise(),
}


@pytest.mark.parametrize("name", SPOILED)
def test_each_defect_has_its_name(name):
    assert name_of(SPOILED[name], SCENE) == name
    assert name_of(SPOILED[name]) == name


@pytest.mark.parametrize("trait", TRAITS, ids=lambda trait: trait.name)
def test_what_the_reference_has_too_is_no_defect(trait):
    assert name_of(SPOILED[trait.name], SPOILED[trait.name]) is None


def test_values_that_are_not_finite_are_always_a_defect():
    assert name_of(SPOILED["NaN"], SPOILED["NaN"]) == "NaN"


@pytest.mark.parametrize("grain", [1, 2, 4, 8])
def test_noise_is_noise_at_every_grain_up_to_a_latent(grain):
    assert name_of(noise(grain=grain), SCENE) == "noise"


def test_coarser_grain_shows_blocks_which_are_things():
    assert name_of(noise(grain=32), SCENE) is None


def test_a_picture_too_small_to_have_neighbours_is_not_called_noise():
    assert name_of(noise(side=8), scene(side=8)) is None


def test_a_defect_says_what_was_seen_and_what_should_be_there():
    batch = np.stack([SCENE, SPOILED["black"]])
    assert find_defect(batch, np.stack([SCENE, SCENE])) == Defect(
        "black",
        "image 2 of 2: no value is brighter than 0 of 255, of the reference no value is brighter than 212 of 255",
    )
    assert find_defect(SPOILED["NaN"][None], SCENE[None]) == Defect("NaN", "384 of 49152 values are not finite")
    assert find_defect(SPOILED["flat"][None]) == Defect(
        "flat", "98 % of the values of each colour lie within 1.78 of 255"
    )


def random_weights(seed):
    """Return what a thin decoder of random weights puts out: noisy, of order 1, clipped here and there."""
    return noise(seed) * 1.2 + 0.4 * noise(seed + 1, grain=8)


@given(st.integers(0, 2**32 - 2), st.sampled_from([scene, random_weights]), st.floats(0, 0.02))
def test_two_pictures_that_nobody_can_tell_apart_never_get_a_name(seed, kind, size):
    reference = kind(seed)
    obtained = reference + size * np.random.default_rng(seed + 1).uniform(-1, 1, reference.shape)
    assert name_of(obtained, reference) is None


@given(st.integers(0, 2**32 - 2), st.floats(0.1, 4), st.floats(-1, 1))
def test_the_gap_of_every_trait_is_wider_than_what_nobody_can_see(seed, gain, shift):
    """Black, flat and saturated do not appear within 0.02 of any picture; noise is a matter of contrast."""
    reference = scene(seed) * gain + shift
    obtained = reference + 0.02 * np.random.default_rng(seed + 1).choice([-1, 1], reference.shape)
    assert name_of(obtained, reference) in {None, "noise"}


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 2))
def test_a_random_picture_is_not_noise_beside_a_random_reference(seed):
    assert name_of(random_weights(seed), random_weights(seed + 7)) is None
