from __future__ import annotations

import numpy as np
import torch

from pytest_sdperf.tasks.pipeline import StepLatents


def test_the_latents_of_every_step_are_kept_as_they_were():
    steps = StepLatents()
    latents = torch.zeros(2, 4, 8, 8, dtype=torch.float16)
    for index in range(3):
        latents += 1
        steps(index, 999.0 - index, latents)
    found = steps.array()
    assert (found.shape, found.dtype) == ((3, 2, 4, 8, 8), np.float16)
    assert found[:, 0, 0, 0, 0].tolist() == [1.0, 2.0, 3.0]
