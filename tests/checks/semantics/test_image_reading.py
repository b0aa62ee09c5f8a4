from __future__ import annotations

import numpy as np
import pytest
from drawings import drawn, some_scenes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from pytest_sdperf.checks.semantics.reading import Reading, outline, read
from pytest_sdperf.checks.semantics.scoring import Score, score
from pytest_sdperf.core.scenes import BACKGROUNDS, COLOURS, SHAPES, all_scenes

SCENES = all_scenes()


@given(index=st.integers(0, len(SCENES) - 1), seed=st.integers(0, 2**31))
@settings(max_examples=40)
def test_a_drawing_shows_what_its_caption_says(index, seed):
    (image,) = drawn([SCENES[index]], seed=seed)
    result = score(SCENES[index], image)
    assert result.wrong == ()
    assert result.clearness > 0.8


@pytest.mark.parametrize(
    ("noise", "blur", "right"), [(0.1, 0, 1.0), (0.2, 0, 1.0), (0, 1, 1.0), (0, 1.5, 0.98), (0.1, 1, 0.96)]
)
def test_noise_and_blur_do_not_mislead(noise, blur, right):
    scenes = some_scenes(SCENES, 60)
    images = ndimage.gaussian_filter(drawn(scenes), (0, 0, blur, blur))
    images = images + noise * np.random.default_rng(1).standard_normal(images.shape)
    found = [score(scene, image).right for scene, image in zip(scenes, images, strict=True)]
    assert np.mean(found) >= right


def test_another_scene_is_seen_as_another():
    scenes = some_scenes(SCENES, 40)
    images = drawn(scenes)
    others = [*scenes[1:], scenes[0]]
    assert not any(score(other, image).right for other, image in zip(others, images, strict=True))


@pytest.mark.parametrize(
    ("image", "reading"),
    [
        (np.full((3, 128, 128), np.nan), Reading("unclear", ())),
        (np.full((3, 128, 128), np.inf), Reading("unclear", ())),
        (np.full((3, 128, 128), -1.0), Reading("black", ())),
        (np.full((3, 128, 128), 1.0), Reading("white", ())),
        (np.zeros((3, 128, 128)), Reading("gray", ())),
    ],
)
def test_an_image_that_shows_nothing(image, reading):
    assert read(image) == reading


def test_noise_is_no_background():
    image = np.random.default_rng(0).standard_normal((3, 128, 128))
    assert read(image).background == "unclear"


def test_an_image_of_another_size_is_refused():
    with pytest.raises(ValueError) as raised:
        read(np.zeros((3, 64, 64)))
    assert str(raised.value) == "an image of shape (3, 64, 64); it must be (3, 128, 128)"


def painted(*things, background="white"):
    """Paint (shape, colour, box) onto a background; a box is left, top, right, bottom."""
    image = np.broadcast_to(np.array(BACKGROUNDS[background])[:, None, None], (3, 128, 128)).astype(float).copy()
    for shape, colour, (left, top, right, bottom) in things:
        inside = outline(shape, bottom - top, right - left)
        image[:, top:bottom, left:right][:, inside] = np.array(colour)[:, None]
    return image / 127.5 - 1


def test_a_thing_is_described():
    reading = read(
        painted(("circle", COLOURS["red"], (20, 30, 70, 80)), ("cross", COLOURS["blue"], (90, 90, 114, 114)))
    )
    large, small = reading.things
    assert (large.colour, large.shape, large.size, large.x, large.y) == ("red", "circle", "large", 45, 55)
    assert (small.colour, small.shape, small.size, small.x, small.y) == ("blue", "cross", "small", 102, 102)
    assert large.colour_error == pytest.approx(0, abs=1e-9)
    assert large.cover > 0.98


@pytest.mark.parametrize(
    ("colour", "box", "described"),
    [
        ((255, 105, 180), (40, 40, 90, 90), ("unclear", "square", "large")),
        (COLOURS["red"], (40, 40, 48, 90), ("red", "square", "unclear")),
        (COLOURS["red"], (20, 20, 110, 110), ("red", "square", "unclear")),
    ],
)
def test_a_thing_without_a_name_has_none(colour, box, described):
    (seen,) = read(painted(("square", colour, box))).things
    assert (seen.colour, seen.shape, seen.size) == described


def test_a_ring_is_no_circle():
    image = painted(("circle", COLOURS["red"], (40, 40, 90, 90)), ("circle", BACKGROUNDS["white"], (50, 50, 80, 80)))
    (seen,) = read(image).things
    assert (seen.colour, seen.shape) == ("red", "unclear")


@pytest.mark.parametrize("shape", SHAPES)
def test_outlines_are_unlike_each_other(shape):
    mask = outline(shape, 24, 24)
    for other in set(SHAPES) - {shape}:
        theirs = outline(other, 24, 24)
        assert (mask & theirs).sum() / (mask | theirs).sum() < 0.8


def test_each_lost_attribute_is_named():
    scene = next(s for s in SCENES if s.caption.startswith("a large red circle left of a large blue square on a white"))
    left, right = (10, 40, 60, 90), (70, 40, 120, 90)
    red, blue = COLOURS["red"], COLOURS["blue"]
    circle, square = ("circle", red, left), ("square", blue, right)

    def of(*things, **more):
        return score(scene, painted(*things, **more))

    assert of(circle, square).right
    assert of(circle, square, background="gray").wrong == ("background",)
    assert of(circle).wrong == ("count",)
    assert of(circle, square, ("square", red, (60, 5, 84, 29))) == Score(("count",), 0.0)
    assert of(circle, square).places == ((35, 65), (95, 65))
    assert of(circle, ("square", COLOURS["cyan"], right)).wrong == ("colour",)
    assert of(("triangle", red, left), square).wrong == ("shape",)
    assert of(("circle", red, (20, 50, 44, 74)), square).wrong == ("size",)
    assert of(("circle", red, right), ("square", blue, left)).wrong == ("position",)
    assert of(("circle", blue, left), ("square", red, right)).wrong == ("shape", "position")


def test_clearness_falls_with_the_colour():
    scene = SCENES[0]
    (image,) = drawn([scene])
    pale = image * 0.85
    assert 0 < score(scene, pale).clearness < score(scene, image).clearness
