"""A second name for an engine with options: one case, whichever of its names was typed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from door_toys import ToyEngine

from pytest_sdperf import builtins
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.case_ids import case_id
from pytest_sdperf.cases.options.engine_requests import Profile, check_profiles, parse_engines
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.errors import DuplicateNameError, OptionError, UnknownNameError
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.run import Run

XFORMERS = EngineRequest("torch", "torch", options=(("attention", "xformers"),))
MINE = Profile("mine", "torch-xformers", options={"tf32": "on"}, env={"A": "1"})


@pytest.fixture
def catalog():
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    return catalog


@pytest.fixture
def parse(catalog):
    profiles = {MINE.name: MINE}
    return lambda text: parse_engines(text, catalog, profiles, device_kind="cuda")


@pytest.mark.parametrize("text", ["torch-xformers", "torch:attention=xformers", "torch-xformers:attention=xformers"])
def test_each_name_makes_the_same_request(parse, text):
    assert parse(text) == (XFORMERS,)


def test_two_names_of_one_case_are_one_case(parse):
    assert parse("torch-xformers,torch:attention=xformers,torch") == (XFORMERS, EngineRequest("torch", "torch"))


def test_further_options_are_added(parse):
    (request,) = parse("torch-xformers:tf32=on")
    assert request.options == (("attention", "xformers"), ("tf32", "on"))


def test_all_engines_are_each_there_once(parse, catalog):
    assert "torch-xformers" not in [request.label for request in parse("all")]
    assert "torch-xformers" in catalog.engine_names


def test_a_profile_may_name_an_alias(parse, catalog):
    (request,) = parse("mine")
    options = (("attention", "xformers"), ("tf32", "on"))
    assert request == EngineRequest("mine", "torch", options=options, env={"A": "1"})
    check_profiles(catalog, {MINE.name: MINE})
    run = Run(Settings(), catalog, {MINE.name: MINE}, "cuda")
    (choice,) = run.choose(Axes.ENGINE, Marks(engines=("mine",), components=("unet",)))
    assert run.request_of(choice.case) == dataclasses.replace(request, by_name=False)


def test_id_and_key_say_what_it_is():
    case = Case("sd15", "unet", XFORMERS.label, "fp16", engine_options=XFORMERS.options)
    assert "engine=torch optimization=fp16 engine_options=attention=xformers" in case.key
    assert case_id(case, usual=case) == "sd15-unet-on-torch-at-fp16-with-attention-xformers"


def test_an_alias_cannot_take_another_value_of_its_option(parse):
    with pytest.raises(OptionError) as caught:
        parse("torch-xformers:attention=flash")
    assert str(caught.value) == (
        "engine 'torch-xformers' is torch:attention=xformers, and cannot take attention=flash. "
        "Leave that option out, or type torch:attention=flash."
    )


def test_a_profile_cannot_have_the_name_of_an_alias(catalog):
    with pytest.raises(OptionError) as caught:
        check_profiles(catalog, {"torch-xformers": Profile("torch-xformers", "torch")})
    assert str(caught.value) == (
        "[tool.sdperf.engines.torch-xformers] has the name of an engine. "
        "Rename the profile, for example to my-torch-xformers."
    )


def test_a_misspelt_alias_is_recognised(parse):
    with pytest.raises(UnknownNameError) as caught:
        parse("torch-xformer")
    assert str(caught.value).startswith("unknown engine 'torch-xformer'. Did you mean 'torch-xformers'? Known: all, ")


def aliased(name, alias):
    engine = ToyEngine(name)
    engine.aliases = {alias: {}}
    return engine


@pytest.mark.parametrize(
    ("first", "second"),
    [(aliased("one", "other"), ToyEngine("other")), (ToyEngine("other"), aliased("one", "other"))],
)
def test_an_alias_is_nobody_elses_name(first, second):
    catalog = Catalog()
    with catalog.owned_by(Registrar("a", Path())):
        catalog.add_engine(first)
    with catalog.owned_by(Registrar("b", Path())), pytest.raises(DuplicateNameError) as caught:
        catalog.add_engine(second)
    assert str(caught.value) == "engine 'other' is registered twice: by a and by b. Rename one of them."
    assert len(catalog.engines.names) == 1
