"""What a person is shown: a strip of steps and a GIF."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from pytest_sdperf.checks.images.strips import MOST_COLUMNS, Pair, difference_map, frames, save, strip


def pair(steps=3, side=32, gap=0.1):
    drawn = np.random.default_rng(0).uniform(-1, 1, (steps, 3, side, side))
    return Pair(("float32", "float16"), (drawn, drawn * (1 - gap)), [1e-3 * (step + 1) for step in range(steps)])


def test_the_map_is_black_where_pictures_are_equal_and_white_where_they_differ_most():
    reference = np.zeros((2, 3, 4, 4))
    obtained = reference.copy()
    obtained[1, :, 2, 3] = 0.02
    obtained[0, :, 0, 0] = 0.01
    shown, gain = difference_map(obtained, reference)
    assert gain == pytest.approx(100)
    assert shown[1, :, 2, 3].tolist() == pytest.approx([1, 1, 1])
    assert shown[0, :, 0, 0].tolist() == pytest.approx([0, 0, 0])
    assert np.sum(shown > -1) == 6


def test_equal_pictures_have_a_black_map():
    shown, gain = difference_map(np.zeros((1, 3, 4, 4)), np.zeros((1, 3, 4, 4)))
    assert (gain, shown.max()) == (1.0, -1.0)


def test_what_is_not_finite_is_the_largest_difference():
    shown, _ = difference_map(np.full((1, 3, 4, 4), np.nan), np.zeros((1, 3, 4, 4)))
    assert shown.min() == 1.0


def test_a_strip_has_a_row_for_each_and_one_for_the_map():
    made = strip(pair())
    pixels = np.asarray(made)
    # Small pictures are enlarged to 96 pixels; between them lies white.
    assert made.height == 2 * 14 + 3 * (96 + 4)
    assert made.width > 3 * 100
    assert (pixels[-50, -50] == pixels[-50, -50][0]).all()  # the map is grey


def test_of_many_steps_a_few_have_a_column_and_every_one_a_frame():
    many = pair(steps=50, side=8)
    assert strip(many).width < (MOST_COLUMNS + 2) * 100
    assert len(frames(many)) == 50


def test_one_step_is_enough():
    assert len(frames(pair(steps=1))) == 1
    assert strip(pair(steps=1)).height == 328


def test_files_are_written_and_can_be_read(tmp_path):
    paths = save(pair(), tmp_path / "new" / "case")
    assert [path.name for path in paths] == ["strip.png", "steps.gif"]
    with Image.open(paths[1]) as gif:
        assert (gif.n_frames, gif.format) == (3, "GIF")
    with Image.open(paths[0]) as image:
        assert image.format == "PNG"


def test_a_picture_that_is_not_finite_is_shown_black(tmp_path):
    broken = pair()
    broken.pictures[1][:] = np.nan
    assert save(broken, tmp_path)[0].is_file()
