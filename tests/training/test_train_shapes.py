from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from drawings import TRAINING, drawn, some_scenes

from pytest_sdperf.core.scenes import all_scenes


def train(folder: Path, *options: str) -> str:
    """Train for a few seconds on the CPU."""
    command = [sys.executable, "-W", "ignore", str(TRAINING / "train_shapes.py"), f"--out={folder}", "--device=cpu"]
    sizes = ["--minutes=0.02", "--batch=2", "--image-batch=1", "--bank=4", "--prompts=2"]
    done = subprocess.run([*command, *sizes, *options], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_training_writes_a_folder_that_diffusers_loads_and_goes_on_from_it(tmp_path):
    from diffusers import StableDiffusionPipeline

    assert "the UNet is trained" in train(tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report) == {"reconstructions", "guidance 3.0", "progress"}
    pipeline = StableDiffusionPipeline.from_pretrained(
        str(tmp_path / "model"), local_files_only=True, dtype=torch.float32
    )
    image = pipeline(prompt="a small red circle", num_inference_steps=1, height=128, width=128, output_type="pt").images
    assert image.shape == (1, 3, 128, 128)
    again = train(tmp_path, "--resume")
    assert "autoencoder" not in again
    assert json.loads((tmp_path / "progress.json").read_text())["autoencoder_done"] is True


def test_scaling_latents_does_not_change_what_is_decoded():
    from autoencoder import encode, fit_scale
    from exporting import Modules

    torch.manual_seed(0)
    vae = Modules.new("cpu").vae.eval().requires_grad_(requires_grad=False)
    images = torch.from_numpy(drawn(some_scenes(all_scenes(), 3)))
    before = vae.decode(encode(vae, images)).sample
    spread_before = vae.encode(images).latent_dist.std / encode(vae, images).std(dim=(0, 2, 3))[:, None, None]
    fit_scale(vae, images)
    latents = encode(vae, images) * vae.config.scaling_factor
    assert latents.mean(dim=(0, 2, 3)) == pytest.approx(torch.zeros(4), abs=1e-4)
    assert latents.std(dim=(0, 2, 3)) == pytest.approx(torch.ones(4), rel=1e-4)
    assert torch.allclose(vae.decode(encode(vae, images)).sample, before, atol=1e-4)
    spread = vae.encode(images).latent_dist.std / encode(vae, images).std(dim=(0, 2, 3))[:, None, None]
    assert torch.allclose(spread, spread_before, rtol=1e-3)


def test_averages_are_put_in_and_taken_out():
    from stepping import Average

    module = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(1.0)
    average = Average({"module": module})
    with torch.no_grad():
        module.weight.fill_(3.0)
    average.update()  # 1 + (1 - 2 / 11) * (3 - 1)
    with average.in_place():
        assert module.weight.item() == pytest.approx(1 + 18 / 11)
    assert module.weight.item() == 3.0
    average.put()
    assert module.weight.item() == pytest.approx(1 + 18 / 11)


def test_a_trainer_learns_until_its_time_is_up(capsys):
    import time

    from stepping import Trainer

    torch.manual_seed(0)
    module = torch.nn.Linear(4, 1)
    inputs = torch.randn(64, 4)
    wanted = inputs.sum(dim=1, keepdim=True)

    def loss() -> torch.Tensor:
        return ((module(inputs) - wanted) ** 2).mean()

    before = loss().item()
    trainer = Trainer("line", {"module": module}, loss, rate=0.05)
    steps = trainer.run(time.monotonic() + 2, graphs=True, on_log=lambda steps: None)
    trainer.average.put()
    assert steps > 100
    assert loss().item() < 0.05 * before
    assert capsys.readouterr().out.startswith(f"line: step {steps}, loss ")


def test_a_loss_that_is_not_finite_ends_the_training(capsys):
    import time

    from stepping import Trainer

    module = torch.nn.Linear(1, 1)
    trainer = Trainer("line", {"module": module}, lambda: module.weight.sum() * float("nan"), rate=0.05)
    with pytest.raises(SystemExit) as raised:
        trainer.run(time.monotonic() + 0.05, graphs=False, on_log=lambda steps: None)
    steps = capsys.readouterr().out.split()[2].rstrip(",")
    assert str(raised.value) == f"line: the loss is nan after {steps} steps; the last checkpoint is whole"
