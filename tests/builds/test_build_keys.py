"""What a build is known by: everything that a model object holds and that touches it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.inventory import Inventory, NotBuiltError
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.models import sd15
from pytest_sdperf.models._stable_diffusion import StableDiffusion

(THIN,) = (model for model in sd15.MODELS if model.name == "sd15-thin")
STEPS = {
    "weights": lambda builder: builder.weights("sd15-thin", "text_encoder"),
    "tokenizers": lambda builder: builder.tokenizers("sd15-thin"),
    "expect": lambda builder: builder.expected_counts("sd15-thin", "text_encoder", "fp32"),
}


class Own(StableDiffusion):
    """Draws other weights, or builds otherwise, than what it derives from."""


def with_encoder(**changes):
    part = dataclasses.replace(THIN.part("text_encoder"), **changes)
    return dataclasses.replace(THIN, parts={**THIN.parts, "text_encoder": part})


def own():
    return Own(**{field.name: getattr(THIN, field.name) for field in dataclasses.fields(THIN)})


def key_of(step, model, folder):
    catalog = Catalog()
    with catalog.owned_by(Registrar("tests", Path(__file__))):
        catalog.add_model(model)
        for optimization in LADDER:
            catalog.add_optimization(optimization)
    builder = Builder(catalog, Settings(), Inventory(folder, size_bytes=1), say=print)
    with pytest.raises(NotBuiltError) as raised:
        STEPS[step](builder)
    return str(raised.value)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "changed",
    [
        with_encoder(results=("penultimate_hidden_state",)),
        with_encoder(pad_token="!"),
        with_encoder(words=("circle", "square")),
        with_encoder(words=("square", "circle")),
        with_encoder(tokenizer="tokenizer_2"),
        own(),
    ],
    ids=["results", "pad-token", "words", "other-words", "tokenizer", "class"],
)
def test_what_a_model_object_holds_is_part_of_every_key(step, changed, tmp_path):
    assert key_of(step, THIN, tmp_path) == key_of(step, dataclasses.replace(THIN), tmp_path)
    assert key_of(step, changed, tmp_path) != key_of(step, THIN, tmp_path)


@pytest.mark.parametrize("changes", [{"steps": 7}, {"guidance_scale": 1.0}, {"height": 64}, {"scheduler": "euler"}])
def test_defaults_of_a_request_build_nothing_anew(changes, tmp_path):
    other = dataclasses.replace(THIN, **changes)
    assert key_of("weights", other, tmp_path) == key_of("weights", THIN, tmp_path)


def test_what_it_holds_for_another_component_builds_nothing_anew(tmp_path):
    decoder = dataclasses.replace(THIN.part("vae_decoder"), folder="other")
    other = dataclasses.replace(THIN, parts={**THIN.parts, "vae_decoder": decoder})
    assert key_of("weights", other, tmp_path) == key_of("weights", THIN, tmp_path)
