"""One image per prompt: which latents and which prompts go into which batch."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sample_values import execution

from pytest_sdperf.core.values import Workload
from pytest_sdperf.models.shapes import SHAPES
from pytest_sdperf.tasks import pipeline as task
from pytest_sdperf.tasks._execution import Picture
from pytest_sdperf.tasks.request.text_to_image import draw_noise


@pytest.mark.parametrize(
    ("batch_size", "batches"),
    [
        (1, [["a"], ["b"], ["c"]]),
        (2, [["a", "b"], ["c", "c"]]),  # filled up: an engine may have been built for this size alone
        (8, [["a", "b", "c", "c", "c", "c", "c", "c"]]),
    ],
)
def test_images_start_from_the_same_rows_of_noise_whatever_the_batch_is(tmp_path, monkeypatch, batch_size, batches):
    asked = []

    def generate(prompts, *, seed, workload, noise):
        asked.append(prompts)
        image = noise[:, :3].repeat_interleave(8, 2).repeat_interleave(8, 3)
        return SimpleNamespace(image=image.half())

    @contextlib.contextmanager
    def loaded(case, context):
        yield SimpleNamespace(model=SHAPES, generate=generate), {}

    monkeypatch.setattr(task, "loaded_request", loaded)
    workload = Workload(batch_size, 128, 128, 20, "ddim")
    case = execution(component="pipeline", workload=workload, picture=Picture(seed=5))
    answer = task.draw(task.DrawPrompts(case, ("a", "b", "c")), SimpleNamespace(out_dir=tmp_path))  # type: ignore[arg-type]  # only its folder
    images = np.load(Path(answer.outputs))["images"]
    assert asked == batches
    assert images.shape == (3, 3, 128, 128)
    assert images.dtype == np.float32
    assert np.array_equal(images[:, :, ::8, ::8], draw_noise((3, 4, 16, 16), 5)[:, :3].half().float().numpy())


def test_noise_may_be_given(monkeypatch):
    from pytest_sdperf.tasks.request import text_to_image

    pipeline = text_to_image.TextToImage.__new__(text_to_image.TextToImage)
    pipeline.model, pipeline.dtype, pipeline.device = SHAPES, "float32", "cpu"
    workload, noise = Workload(2, 128, 128, 20, "ddim"), torch.full((2, 4, 16, 16), 0.25)
    begun = pipeline._begin(workload, seed=0, noise=noise, start=None, strength=1.0)
    assert torch.equal(begun.latents, noise)
    drawn = pipeline._noise(workload, 0)
    assert not torch.equal(pipeline._begin(workload, seed=0, noise=drawn, start=None, strength=1.0).latents, noise)
