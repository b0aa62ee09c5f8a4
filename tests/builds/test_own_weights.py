"""Weights that come with a model are taken without being named, and identify its cases."""

from __future__ import annotations

import dataclasses

import pytest
from door_toys import toy_catalog

from pytest_sdperf.builds.weights_identity import weights_identity
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.selector import Selector
from pytest_sdperf.core.settings import Selection
from pytest_sdperf.models.shapes import SHAPES


def chosen(folder, **selection):
    catalog = toy_catalog()
    catalog.add_model(dataclasses.replace(SHAPES, trained=folder))
    asked = Selection(models=("shapes", "sd15"), components=("unet",), **selection)
    choices = Selector(asked, catalog, {}, "cpu").choose(Axes.BUILD, Marks())
    return {choice.case.model: (choice.id, choice.case.weights) for choice in choices if choice.case}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "model.safetensors").write_bytes(b"trained")
    return tmp_path


def test_they_identify_a_case_and_are_nothing_out_of_the_ordinary(folder):
    found = chosen(folder)
    name, weights = found["shapes"]
    assert weights == weights_identity(str(folder))
    assert weights.startswith("folder-")
    assert "weights" not in name
    assert found["sd15"][1] == "random-0"


@pytest.mark.parametrize("named", ["random", "none"])
def test_others_may_be_named(folder, named):
    found = chosen(folder, weights=named)
    name, weights = found["shapes"]
    assert weights == weights_identity(named)
    assert "weights" in name
    assert found["sd15"][1] == weights


@pytest.mark.parametrize(
    ("named", "taken"), [("", str(SHAPES.trained)), ("random", "random"), ("none", "none"), ("a/b", "a/b")]
)
def test_what_is_taken(named, taken):
    assert Selection(weights=named).weights_of(SHAPES) == taken


def test_a_model_without_any_has_random_ones():
    assert Selection().weights_of(dataclasses.replace(SHAPES, trained=None)) == "random"


def test_graphs_that_are_given_have_no_module_unless_weights_are_named(tmp_path):
    assert not Selection(onnx_dir=tmp_path).has_module
    assert Selection(onnx_dir=tmp_path, weights=str(tmp_path)).has_module
