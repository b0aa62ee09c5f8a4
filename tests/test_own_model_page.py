"""What docs/own-model.md shows is run: each example is registered as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import UnknownNameError, WeightsError
from pytest_sdperf.core.values import Workload
from pytest_sdperf.models import built_in

PAGE = (Path(__file__).parents[1] / "docs" / "own-model.md").read_text(encoding="utf-8")
EXAMPLES = dict(zip(("narrow", "upscaler"), re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), strict=True))
WORK = Workload(batch_size=2, height=64, width=128, steps=1, scheduler="ddim")


def registered(name):
    names: dict = {"__name__": "conftest"}
    exec(EXAMPLES[name], names)
    catalog = Catalog()
    names["pytest_sdperf_register"](catalog)
    return catalog.models.get(name)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_page_has_the_module_that_it_says(name, tmp_path):
    import torch

    model = registered(name)
    model.draw_weights("unet", tmp_path / "weights.safetensors", seed=3)
    module = model.module("unet", weights=tmp_path / "weights.safetensors")
    inputs = model.example("unet", WORK, seed=1)
    assert [(one, array.shape) for one, array in inputs.items()] == [
        (spec.name, spec.shape) for spec in model.inputs("unet", WORK)
    ]
    outputs = module(*(torch.from_numpy(np.asarray(array)) for array in inputs.values()))
    assert [tuple(one.shape) for one in outputs] == [spec.shape for spec in model.outputs("unet", WORK)]
    assert all(bool(one.isfinite().all()) for one in outputs)
    assert all(parameter.is_meta for parameter in model.module("unet", weights=None).parameters())
    assert set(load_file(tmp_path / "weights.safetensors"))


def test_a_variant_differs_in_what_was_said_and_in_nothing_else():
    base, narrow = built_in("sd15-thin"), registered("narrow")
    changed = {"unet": {"block_out_channels": [32, 32, 64, 64]}, "scheduler": {"steps_offset": 0}}
    for part in (*base.components, "scheduler"):
        assert narrow.config(part) == {**base.config(part), **changed.get(part, {})}
    assert (narrow.name, narrow.steps, narrow.height, narrow.thin) == ("narrow", 8, base.height, True)
    both = base.variant("other", config={"vae": {"scaling_factor": 0.2}, "vae_decoder": {"act_fn": "relu"}})
    assert both.config("vae_decoder") == {**base.config("vae_decoder"), "scaling_factor": 0.2, "act_fn": "relu"}
    assert both.config("vae_encoder") == {**base.config("vae_encoder"), "scaling_factor": 0.2}
    assert built_in("shapes").variant("untrained", config={}).trained is None
    assert base.config("unet")["block_out_channels"] == [64, 128, 256, 256]


def test_what_is_not_there_is_refused_with_what_is():
    with pytest.raises(UnknownNameError) as raised:
        built_in("sd15-thin").variant("mine", config={"unett": {}})
    assert str(raised.value) == (
        "unknown component of sd15-thin 'unett'. Did you mean 'unet'? Known: scheduler, text_encoder, unet, vae, "
        "vae_decoder, vae_encoder."
    )
    with pytest.raises(UnknownNameError, match="sd16-thin"):
        built_in("sd16-thin")


def test_what_a_model_does_not_say_has_a_default(tmp_path):
    model = registered("upscaler")
    assert model.parameters("unet") is None
    assert model.write_tokenizers(tmp_path, weights=None) == ()
    with pytest.raises(WeightsError) as raised:
        model.import_weights("unet", Path("mine"), tmp_path / "weights.safetensors")
    assert str(raised.value) == (
        "model upscaler takes no weights of a folder, and mine was given. Leave --sdperf-weights out, or write "
        "Upscaler.import_weights."
    )
    (one,), (again,), (other,) = (model.example("unet", WORK, seed=seed).values() for seed in (1, 1, 2))
    assert one.dtype == np.float32
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
