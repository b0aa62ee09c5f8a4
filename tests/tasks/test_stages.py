"""How long each stage of a request takes, and that nobody's calls are changed by watching."""

from __future__ import annotations

import pytest
import torch

from pytest_sdperf.tasks import _stages
from pytest_sdperf.tasks._stages import Stages
from pytest_sdperf.tasks.request.whole_call import observed_parts


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the components move."""

    class Clock:
        now_s = 100.0

    monkeypatch.setattr(_stages, "monotonic_s", lambda: Clock.now_s)
    return Clock


def taking(clock, seconds):
    def call(inputs):
        clock.now_s += seconds
        return inputs

    return call


def test_each_call_of_a_component_is_timed_and_what_is_left_is_between(clock):
    stages = Stages(on_cpu=True)
    encode, step, decode = (
        stages.watched(name, taking(clock, seconds))
        for name, seconds in (("text_encoder", 0.5), ("unet", 2.0), ("vae_decoder", 4.0))
    )

    def request():
        for call in (encode, encode, step, step, step, decode):
            assert call({"x": 1}) == {"x": 1}
            clock.now_s += 0.25

    stages.watch(request)
    assert stages.facts == {
        "stages_s": {"text_encoder": [0.5, 0.5], "unet": [2.0] * 3, "vae_decoder": [4.0], "between": [1.5]}
    }
    stages.watch(encode_alone := lambda: encode({}))
    assert stages.facts == {"stages_s": {"text_encoder": [0.5], "between": [0.0]}}, encode_alone


def test_the_device_is_idle_before_and_after_each_call(clock, monkeypatch):
    seen = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append("idle"))
    stages = Stages(on_cpu=False)
    call = stages.watched("unet", lambda inputs: seen.append("unet"))
    stages.watch(lambda: call({}))
    assert seen == ["idle", "idle", "unet", "idle", "idle"]


def test_a_watched_request_that_fails_loses_nothing_that_was_measured(clock):
    def fail():
        raise RuntimeError("no room")

    stages = Stages(on_cpu=True)
    stages.watch(fail)
    assert stages.facts == {"stages_not_available": "the watched request failed: RuntimeError: no room"}


class Part(torch.nn.Module):
    def forward(self, value):
        return value + 1


class Vae(torch.nn.Module):
    def decode(self, value, *, return_dict=True):
        return value * 2


class Pipeline:
    def __init__(self, vae, **parts):
        self.vae, self.unet, self.text_encoder = vae, Part(), Part()
        vars(self).update(parts)

    def __call__(self, value):
        return self.vae.decode(self.unet(self.unet(self.text_encoder(value))), return_dict=False)


def own_decode():
    vae = Vae()
    vae.decode = lambda value, *, return_dict: value * 4
    return vae


@pytest.mark.parametrize("vae", [Vae(), own_decode(), torch.compile(Vae(), backend="eager")])
@pytest.mark.parametrize("parts", [{}, {"text_encoder_2": Part()}, {"unet": torch.compile(Part(), backend="eager")}])
def test_the_parts_of_a_pipeline_of_ones_own_are_observed_and_left_as_they_were(vae, parts):
    pipeline, seen = Pipeline(vae, **parts), []
    expected, before = pipeline(torch.ones(1)), (dict(vars(vae)), dict(vars(Part)))

    def observe(name, call):
        seen.append(name)
        return call()

    with observed_parts(pipeline, observe):
        assert torch.equal(pipeline(torch.ones(1)), expected)
    assert seen == ["text_encoder", "unet", "unet", "vae_decoder"]
    assert (dict(vars(vae)), dict(vars(Part))) == before
    pipeline(torch.ones(1))
    assert len(seen) == 4
