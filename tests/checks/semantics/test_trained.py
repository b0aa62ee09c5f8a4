"""The weights that come with the package: what they are, and that anybody's diffusers draws with them."""

from __future__ import annotations

import json

import pytest

from pytest_sdperf.checks.semantics.scoring import score
from pytest_sdperf.core.scenes import all_scenes
from pytest_sdperf.models.shapes import SHAPES

FOLDER = SHAPES.trained
assert FOLDER is not None
PROMPT = "a large red circle left of a small blue square on a white background"


def test_they_are_small_and_hold_no_pickle():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 16e6
    assert {path.suffix for path in files} == {".json", ".safetensors", ".txt"}


@pytest.mark.parametrize(
    ("file", "component"),
    [
        ("text_encoder/config.json", "text_encoder"),
        ("unet/config.json", "unet"),
        ("vae/config.json", "vae_decoder"),
        ("scheduler/scheduler_config.json", "scheduler"),
    ],
)
def test_their_configuration_is_that_of_the_model(file, component):
    stored = json.loads((FOLDER / file).read_text(encoding="utf-8"))
    wanted = SHAPES.config(component)
    assert {name: stored[name] for name in wanted if name in stored} == {n: v for n, v in wanted.items() if n in stored}
    assert len(stored.keys() & wanted.keys()) >= 0.7 * len(wanted)


@pytest.mark.parametrize("component", SHAPES.components)
def test_they_fit_the_model(tmp_path, component):
    SHAPES.import_weights(component, FOLDER, tmp_path / "weights.safetensors")
    SHAPES.module(component, weights=tmp_path / "weights.safetensors")


@pytest.mark.slow
def test_a_pipeline_of_diffusers_draws_what_a_prompt_says():
    import torch
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(str(FOLDER), local_files_only=True, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    made = pipeline(
        prompt=PROMPT,
        num_inference_steps=SHAPES.steps,
        guidance_scale=SHAPES.guidance_scale,
        height=SHAPES.height,
        width=SHAPES.width,
        generator=torch.Generator().manual_seed(0),
        output_type="pt",
    )
    scene = next(scene for scene in all_scenes() if scene.caption == PROMPT)
    assert score(scene, made.images[0].numpy() * 2 - 1).wrong == ()
