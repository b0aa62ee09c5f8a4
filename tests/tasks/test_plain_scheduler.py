"""A scheduler that was made plain, written and read again does what the one does that is in a pipeline."""

from __future__ import annotations

import inspect

import diffusers
import numpy as np
import pytest
import torch

from pytest_sdperf.core.errors import PipelineError
from pytest_sdperf.tasks import _plain_scheduler
from pytest_sdperf.tasks._plain_scheduler import plain_scheduler, read, write

# What diffusers asks of torch and numpy, and its own advice.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
USUAL = [
    "DDIMScheduler", "DPMSolverMultistepScheduler", "EulerDiscreteScheduler", "PNDMScheduler", "UniPCMultistepScheduler"
]  # fmt: skip
OTHERS = [
    "DDPMScheduler", "DEISMultistepScheduler", "DPMSolverSinglestepScheduler", "EulerAncestralDiscreteScheduler",
    "HeunDiscreteScheduler", "KDPM2AncestralDiscreteScheduler", "KDPM2DiscreteScheduler", "LCMScheduler",
    "LMSDiscreteScheduler", "TCDScheduler",
]  # fmt: skip
# What people set, wherever a scheduler knows it, and what it stands beside.
SETTINGS = {
    "released": {**BETAS},
    "usual": {},
    "given betas": {"trained_betas": np.linspace(1e-4, 1e-2, 1000).tolist()},
    "trailing": {**BETAS, "timestep_spacing": "trailing"},
    "offset": {**BETAS, "steps_offset": 1},
    "clipped": {**BETAS, "clip_sample": True, "clip_sample_range": 0.5},
    "velocity": {**BETAS, "prediction_type": "v_prediction"},
    "karras": {**BETAS, "use_karras_sigmas": True},
    "zero": {**BETAS, "rescale_betas_zero_snr": True, "prediction_type": "v_prediction"},
    "one": {**BETAS, "set_alpha_to_one": False},
}
CASES = [
    *(
        (kind, name)
        for kind in USUAL
        for name, settings in SETTINGS.items()
        if set(settings) <= set(inspect.signature(getattr(diffusers, kind).__init__).parameters)
    ),
    *((kind, "released") for kind in OTHERS),
]


def latents(scheduler, steps=5):
    """What a scheduler makes of an answer that is the same for all."""
    scheduler.set_timesteps(steps)
    random = torch.Generator().manual_seed(0)
    sample = torch.randn((1, 4, 8, 8), generator=random) * scheduler.init_noise_sigma
    answer = torch.randn((1, 4, 8, 8), generator=random)
    found = [scheduler.timesteps]
    more = {"generator": random} if "generator" in inspect.signature(scheduler.step).parameters else {}
    for timestep in scheduler.timesteps:
        given = scheduler.scale_model_input(sample, timestep)
        sample = scheduler.step(answer + 0.1 * given, timestep, sample, **more).prev_sample
        found.append(sample)
    return found


@pytest.fixture
def both(tmp_path):
    """Return what a scheduler makes, and what is made by the one that is compared with it."""

    def make(scheduler):
        write(plain_scheduler(scheduler, "x"), tmp_path)
        return latents(scheduler), latents(read(tmp_path))

    return make


def assert_equal(one, other):
    assert len(one) == len(other)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert all(bool(a.isfinite().all()) for a in one)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_each_scheduler_with_whatever_settings_does_the_same_also_after_another_call(both, kind, name):
    scheduler = getattr(diffusers, kind)(**SETTINGS[name])
    assert_equal(*both(scheduler))
    latents(scheduler, steps=7)
    assert_equal(*both(scheduler))


@pytest.mark.parametrize(
    "kind", ["DDIMScheduler", "PNDMScheduler", "EulerDiscreteScheduler", "UniPCMultistepScheduler"]
)
def test_numbers_that_were_changed_by_hand_are_kept(both, kind):
    scheduler = getattr(diffusers, kind)(**BETAS)
    scheduler.alphas_cumprod = scheduler.alphas_cumprod**1.2
    changed, made = both(scheduler)
    assert_equal(changed, made)
    usual = latents(getattr(diffusers, kind)(**BETAS))
    assert not all(torch.equal(a, b) for a, b in zip(changed, usual, strict=True))


def test_what_nothing_changed_says_so():
    assert _plain_scheduler.changed_numbers(diffusers.PNDMScheduler(**BETAS)) == {}


def test_a_derived_class_is_its_plain_one_and_another_is_refused():
    class Mine(diffusers.DDIMScheduler):
        pass

    assert type(plain_scheduler(Mine(**BETAS), "x")) is diffusers.DDIMScheduler
    with pytest.raises(PipelineError, match="which is none of diffusers"):
        plain_scheduler(object(), "x")
