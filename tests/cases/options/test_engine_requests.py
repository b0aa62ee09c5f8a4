from __future__ import annotations

import string
import sys
from pathlib import Path

import pytest
from door_toys import ToyEngine, toy_catalog
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.cases.options.engine_requests import Profile, check_profiles, parse_engines
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import EngineOption
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.settings import EngineRequest

NIGHTLY = Profile("nightly", "ort-cuda", options={"sdpa": "flash"}, python=Path(sys.executable), env={"A": "1"})


def parse(text, *, profiles=(), device_kind="cuda"):
    return parse_engines(text, toy_catalog(), {p.name: p for p in profiles}, device_kind=device_kind)


def test_a_piece_with_an_equals_sign_belongs_to_the_engine_on_its_left():
    assert parse("ort-cuda:sdpa=cudnn,cuda_graph=on,torch") == (
        EngineRequest("ort-cuda", "ort-cuda", options=(("cuda_graph", "on"), ("sdpa", "cudnn"))),
        EngineRequest("torch", "torch"),
    )


def test_an_option_at_its_default_leaves_no_trace():
    assert parse("ort-cuda:sdpa=auto,cuda_graph=off, ort-cuda") == (EngineRequest("ort-cuda", "ort-cuda"),)


def test_all_is_every_engine_of_the_device_and_none_of_them_by_name():
    assert [(r.label, r.by_name) for r in parse("all")] == [("torch", False), ("ort-cuda", False)]


def test_a_profile_brings_options_interpreter_and_environment_and_typed_options_win():
    (request,) = parse("nightly:sdpa=cudnn,cuda_graph=on", profiles=[NIGHTLY])
    assert request == EngineRequest(
        "nightly",
        "ort-cuda",
        options=(("cuda_graph", "on"), ("sdpa", "cudnn")),
        python=Path(sys.executable),
        env={"A": "1"},
    )


def test_a_value_may_hold_a_colon():
    catalog = Catalog()
    catalog.add_engine(ToyEngine("x", options={"path": EngineOption("", "A path.")}))
    (request,) = parse_engines("x:path=C:/cache", catalog, {}, device_kind="cpu")
    assert request.options == (("path", "C:/cache"),)


TWICE = "ort-cpu:threads=1,threads=2"
GRAMMAR = "Allowed: NAME or NAME:OPTION=VALUE,OPTION=VALUE; type for example ort-cpu:threads=4,torch."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ortt-cpu",
            ("unknown engine 'ortt-cpu'. Did you mean 'ort-cpu'? Known: absent, all, ort-cpu, ort-cuda, torch."),
        ),
        ("torch,,ort-cpu", f"'torch,,ort-cpu' holds an empty name. {GRAMMAR}"),
        ("threads=4", f"'threads=4' gives the option 'threads=4' to no engine. {GRAMMAR}"),
        (":threads=4", f"':threads=4' gives the option 'threads=4' to no engine. {GRAMMAR}"),
        ("ort-cpu:", f"'ort-cpu:': '' is not an option of engine 'ort-cpu'. {GRAMMAR}"),
        ("ort-cpu:threads", f"'ort-cpu:threads': 'threads' is not an option of engine 'ort-cpu'. {GRAMMAR}"),
        ("ort-cpu:threads=", f"'ort-cpu:threads=': 'threads=' is not an option of engine 'ort-cpu'. {GRAMMAR}"),
        (TWICE, ("'ort-cpu:threads=1,threads=2' gives the option 'threads' of engine 'ort-cpu' twice. Leave one out.")),
        ("ort-cpu:thread=1", "unknown option of engine 'ort-cpu': 'thread'. Did you mean 'threads'? Known: threads."),
        ("torch:threads=1", "unknown option of engine 'torch': 'threads'. Known: none."),
        (
            "ort-cuda:cuda_graph=maybe",
            (
                "engine 'ort-cuda' does not take cuda_graph=maybe. Allowed: off, on; type for example "
                "ort-cuda:cuda_graph=off."
            ),
        ),
        (
            "ort-cpu:threads=0",
            (
                r"engine 'ort-cpu' does not take threads=0. Allowed: text that matches auto|[1-9]\d*; type "
                r"for example ort-cpu:threads=auto."
            ),
        ),
        ("all:threads=1", f"'all' takes no options. Name the engine that they belong to. {GRAMMAR}"),
    ],
)
def test_a_malformed_request_is_answered_with_the_grammar(text, message):
    with pytest.raises(SdperfError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_a_profile_whose_interpreter_is_gone_says_where_it_was_named(tmp_path):
    with pytest.raises(SdperfError) as caught:
        parse("old", profiles=[Profile("old", "torch", python=tmp_path / "python")])
    assert str(caught.value) == (
        f"profile 'old' names the interpreter {tmp_path / 'python'}, which does not exist. "
        "Create that environment, or correct python in [tool.sdperf.engines.old]."
    )


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            Profile("torch", "ort-cpu"),
            ("[tool.sdperf.engines.torch] has the name of an engine. Rename the profile, for example to my-torch."),
        ),
        (
            Profile("all", "torch"),
            (
                "[tool.sdperf.engines.all]: 'all' cannot name a profile. Allowed: letters, digits, dots, "
                "hyphens and underscores, other than 'all'. Rename it, for example to my-engine."
            ),
        ),
        (
            Profile("a,b", "torch"),
            (
                "[tool.sdperf.engines.a,b]: 'a,b' cannot name a profile. Allowed: letters, digits, dots, "
                "hyphens and underscores, other than 'all'. Rename it, for example to my-engine."
            ),
        ),
        (
            Profile("mine", "torhc"),
            ("unknown engine 'torhc'. Did you mean 'torch'? Known: absent, ort-cpu, ort-cuda, torch."),
        ),
        (
            Profile("mine", "ort-cpu", options={"threads": "many"}),
            (
                r"engine 'ort-cpu' does not take threads=many. Allowed: text that matches auto|[1-9]\d*; type "
                r"for example ort-cpu:threads=auto."
            ),
        ),
    ],
)
def test_a_profile_is_checked_before_it_is_used(profile, message):
    with pytest.raises(SdperfError) as caught:
        check_profiles(toy_catalog(), {profile.name: profile})
    assert str(caught.value) == message


@given(
    st.lists(st.tuples(st.sampled_from(["torch", "ort-cpu", "ort-cuda"]), st.integers(1, 64)), min_size=1, max_size=5)
)
def test_engines_come_back_in_the_order_given_each_once(wanted):
    text = ",".join(f"{name}:threads={n}" if name == "ort-cpu" else name for name, n in wanted)
    expected = dict.fromkeys((name, n if name == "ort-cpu" else 0) for name, n in wanted)
    found = [(r.label, int(dict(r.options).get("threads", 0))) for r in parse(text)]
    assert found == list(expected)


@given(st.text(alphabet=string.ascii_lowercase + ":=,- ", max_size=20))
def test_any_text_is_a_request_or_a_message(text):
    try:
        answer = str(parse(text))
    except SdperfError as error:
        answer = str(error)
    assert answer
