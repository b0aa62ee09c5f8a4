"""What a request keeps of its way."""

from __future__ import annotations

import numpy as np
import torch

from pytest_sdperf.tasks._kept import Ranges, StepLatents


def test_the_latents_of_every_step_are_kept_as_they_were():
    steps = StepLatents()
    latents = torch.zeros(2, 4, 8, 8, dtype=torch.float16)
    for index in range(3):
        latents += 1
        steps(index, 999.0 - index, latents)
    found = steps.arrays()["step_latents"]
    assert (found.shape, found.dtype) == ((3, 2, 4, 8, 8), np.float16)
    assert found[:, 0, 0, 0, 0].tolist() == [1.0, 2.0, 3.0]


def test_where_nobody_told_of_a_step_nothing_is_kept():
    assert StepLatents().arrays() == {}


def test_the_range_of_every_output_is_kept_call_by_call():
    ranges = Ranges()
    call = ranges.watched("unet", lambda inputs: {"a": inputs["x"], "b": -2 * inputs["x"]})
    assert call({"x": torch.tensor([1.0, 3.0])})["b"].tolist() == [-2.0, -6.0]
    call({"x": torch.tensor([torch.inf, 5.0], dtype=torch.float16)})
    found = ranges.arrays()
    assert list(found) == ["range.unet"]
    assert found["range.unet"].tolist() == [[6.0, 0.0, 4.0], [10.0, 2.0, 4.0]]
