"""A pipeline of the user's own that disagrees: what its code switched on is named, and where the images go apart."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sample_values import case

from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.checks.agreement import check
from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.references.of_case import Reference
from pytest_sdperf.tasks.external_pipeline import Description

RANDOM = np.random.default_rng(0)
MADE = {
    "image": RANDOM.standard_normal((1, 3, 64, 64)),
    "latents": RANDOM.standard_normal((1, 4, 8, 8)),
    "step_latents": RANDOM.standard_normal((3, 1, 4, 8, 8)),
    "unet_calls": np.array(3),
}
DECODING = "The latents after every step agree: only decoding them differs."
SWITCHED_ON = (
    "The pipeline has {} switched on, and what it is compared with has not: that changes what is computed. Make it "
    "without to see whether anything else differs."
)


def off(*names):
    """What a pipeline makes of which these are 10 % off, and the others as far off as torch's own rounding."""
    share = {name: 0.1 if name in names else 1e-6 for name in MADE}
    return {name: array * (1 + share[name]) if name != "unet_calls" else array for name, array in MADE.items()}


@pytest.fixture
def agreed(monkeypatch):
    """Compare what a pipeline makes, of which these things are switched on; return what is said of it, whole."""
    reference = Reference("float32", MADE, off(), "torch", "float64")
    monkeypatch.setattr(check, "reference_of", lambda runner: reference)
    monkeypatch.setattr(check, "other_roundings", lambda runner, dtype: [])

    def compare(obtained, *switched_on):
        dtype = dict.fromkeys(("text_encoder", "unet", "vae"), "float32")
        description = Description("", dtype, 64, 64, "pndm", watermark=False, switched_on=switched_on)
        runner = ExternalPipelineRunner.__new__(ExternalPipelineRunner)
        context = SimpleNamespace(builder=SimpleNamespace(external=None))
        for name, value in {"case": case(component="pipeline"), "context": context, "description": description}.items():
            object.__setattr__(runner, name, value)
        monkeypatch.setattr(ExternalPipelineRunner, "outputs", lambda self: obtained)
        return [sentences(one) for one in check.agree(runner) if not one.passed]

    return compare


@pytest.mark.parametrize("switched_on", [(), ("tiling of the vae",)])
def test_what_agrees_is_not_asked_what_is_switched_on(agreed, switched_on):
    assert agreed(off(), *switched_on) == []


@pytest.mark.parametrize(
    ("switched_on", "named"),
    [
        ((), ""),
        (("tiling of the vae",), "tiling of the vae"),
        (("FreeU of the unet", "slicing of the vae"), "FreeU of the unet, slicing of the vae"),
    ],
)
def test_where_the_latents_agree_decoding_is_named_with_what_is_switched_on(agreed, switched_on, named):
    first, *others = agreed(off("image"), *switched_on)
    assert first.endswith(f" {DECODING} {SWITCHED_ON.format(named)}" if named else f" {DECODING}")
    assert not [one for one in others if "switched on" in one or DECODING in one]  # it is said once


@pytest.mark.parametrize("wrong", [("step_latents",), ("step_latents", "image")])
def test_where_the_latents_go_apart_decoding_is_not_blamed(agreed, wrong):
    found = agreed(off(*wrong), "FreeU of the unet")
    assert found[0].endswith(SWITCHED_ON.format("FreeU of the unet"))
    assert not [one for one in found if DECODING in one]
