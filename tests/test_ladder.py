from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.ladder import dtype_of, ends, optimizations, parse_optimizations, unnamed, without
from pytest_sdperf.fusing.optimizations import LADDER as OPTIMIZATIONS

LADDER = tuple(optimization.name for optimization in OPTIMIZATIONS)
GRAMMAR = "A comma separates builds, a plus joins the optimizations of one build, all-NAME leaves one out."
WITH_WORDS = "all, bias-add, bias-split-gelu, fmha, fp16, fp32, group-norm, ladder, nhwc-conv, packed-qkv"
NAMES = "bias-add, bias-split-gelu, fmha, fp16, fp32, group-norm, nhwc-conv, packed-qkv"


def test_the_ladder_is_the_one_of_the_manual():
    assert LADDER == (
        "fp32", "fp16", "fmha", "nhwc-conv", "group-norm", "bias-split-gelu", "packed-qkv", "bias-add",
    )  # fmt: skip
    assert [optimization.position for optimization in OPTIMIZATIONS] == sorted(
        {optimization.position for optimization in OPTIMIZATIONS}
    )


@pytest.mark.parametrize(
    ("text", "selections"),
    [
        ("fmha", ("fmha",)),
        ("fmha,group-norm", ("fmha", "group-norm")),
        (" fp16 , fmha ", ("fp16", "fmha")),
        ("group-norm+fp16+fmha", ("fp16+fmha+group-norm",)),
        ("fp16+fmha,fmha+fp16", ("fp16+fmha",)),
        ("fp32+fp16", ("fp16",)),
        ("fp32+fmha", ("fp32+fmha",)),
        ("fp32+fp16+fmha", ("fp16+fmha",)),
        ("all", ("bias-add",)),
        ("all-fmha", ("all-fmha",)),
        ("all-group-norm", ("all-group-norm",)),
        ("ladder", LADDER),
        ("ladder,fp16", LADDER),
    ],
)
def test_grammar(text, selections):
    assert parse_optimizations(text, LADDER) == selections


@pytest.mark.parametrize(
    ("selection", "expected", "dtype"),
    [
        ("fp32", ("fp32",), "float32"),
        ("fp16", ("fp32", "fp16"), "float16"),
        ("fmha", ("fp32", "fp16", "fmha"), "float16"),
        ("fp16+fmha", ("fp16", "fmha"), "float16"),
        ("fp32+fmha", ("fp32", "fmha"), "float32"),
        ("all-fmha", tuple(name for name in LADDER if name != "fmha"), "float16"),
        ("all-fp16", tuple(name for name in LADDER if name != "fp16"), "float32"),
        ("bias-add", LADDER, "float16"),
    ],
)
def test_optimizations_and_dtype(selection, expected, dtype):
    assert optimizations(selection, LADDER) == expected
    assert dtype_of(selection, LADDER) == dtype


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "fhma",
            f"unknown optimization 'fhma'. Did you mean 'fmha'? Known: {WITH_WORDS}. {GRAMMAR}",
        ),
        (
            "fp16+gruop-norm",
            f"unknown optimization 'gruop-norm'. Did you mean 'group-norm'? Known: {NAMES}. {GRAMMAR}",
        ),
        ("all-fp61", f"unknown optimization 'fp61'. Did you mean 'fp16'? Known: {NAMES}. {GRAMMAR}"),
    ],
)
def test_unknown_names(text, message):
    with pytest.raises(UnknownNameError) as raised:
        parse_optimizations(text, LADDER)
    assert str(raised.value) == message


@pytest.mark.parametrize("text", ["", "fp16,", "fp16++fmha", "+"])
def test_empty_names(text):
    with pytest.raises(OptionError) as raised:
        parse_optimizations(text, LADDER)
    assert str(raised.value) == (
        f"--optimization={text} holds an empty name. {GRAMMAR} Known: fp32, fp16, fmha, nhwc-conv, group-norm, "
        f"bias-split-gelu, packed-qkv, bias-add, all, ladder."
    )


def test_a_optimization_named_twice():
    with pytest.raises(OptionError) as raised:
        parse_optimizations("fp16+fmha+fp16", LADDER)
    assert (
        str(raised.value)
        == f"--optimization=fp16+fmha+fp16 names the optimization 'fp16' twice in one build. {GRAMMAR}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("fp32,fmha", ()), ("ladder", LADDER), ("ladder, fmha ,all-fmha", tuple(r for r in LADDER if r != "fmha"))],
)
def test_optimizations_that_nobody_named_are_there_because_of_the_ladder(text, expected):
    assert unnamed(text, LADDER) == expected


@pytest.mark.parametrize(
    ("text", "highest", "expected"),
    [
        ("ladder", "bias-add", ("fp32", "bias-add")),
        ("ladder", "fp16", ("fp32", "fp16")),
        ("ladder", "fp32", ("fp32",)),
        ("ladder,fmha,all-fmha", "bias-add", ("fp32", "fmha", "bias-add", "all-fmha")),
        ("fp32,fp16,fmha", "bias-add", ("fp32", "fp16", "fmha")),
        ("ladder", "", ("bias-add",)),
    ],
)
def test_of_a_ladder_the_ends_that_fit_are_left_and_what_was_named(text, highest, expected):
    fitting = LADDER[: LADDER.index(highest) + 1] if highest else ()
    found = ends(parse_optimizations(text, LADDER), unnamed(text, LADDER), fits=fitting.__contains__)
    assert found == expected


@pytest.mark.parametrize(
    ("selection", "left_out", "expected"),
    [
        ("bias-add", {"bias-split-gelu"}, "all-bias-split-gelu"),
        ("bias-add", {"bias-split-gelu", "packed-qkv"}, "fp16+fmha+nhwc-conv+group-norm+bias-add"),
        ("fmha", {"bias-split-gelu"}, "fmha"),
        ("fmha", {"fp16", "fmha"}, "fp32"),
        ("packed-qkv", {"bias-split-gelu"}, "fp16+fmha+nhwc-conv+group-norm+packed-qkv"),
        ("all-fmha", {"bias-split-gelu"}, "fp16+nhwc-conv+group-norm+packed-qkv+bias-add"),
        ("as-is", {"fmha"}, "as-is"),
    ],
)
def test_a_selection_without_some_optimizations(selection, left_out, expected):
    assert without(selection, left_out, LADDER) == expected


def test_selection_from_another_ladder():
    with pytest.raises(UnknownNameError):
        optimizations("fmha", ("fp32", "fp16"))


names = st.sampled_from(LADDER)
exact = st.lists(names, min_size=2, max_size=8, unique=True).map("+".join)
pieces = names | exact | names.map("all-{}".format) | st.sampled_from(["all", "ladder"])
texts = st.lists(pieces, min_size=1, max_size=4).map(",".join)


@given(texts)
def test_canonical_form_is_a_fixed_point_without_repetition(text):
    once = parse_optimizations(text, LADDER)
    assert parse_optimizations(",".join(once), LADDER) == once
    assert len(set(once)) == len(once)


@given(exact, st.randoms())
def test_order_of_exact_optimizations_does_not_matter(text, random):
    shuffled = text.split("+")
    random.shuffle(shuffled)
    assert parse_optimizations("+".join(shuffled), LADDER) == parse_optimizations(text, LADDER)


@given(exact)
def test_canonical_form_builds_the_optimizations_that_were_named(text):
    (selection,) = parse_optimizations(text, LADDER)
    # The raw export adds nothing to a build of other optimizations.
    assert set(optimizations(selection, LADDER)) - {"fp32"} == set(text.split("+")) - {"fp32"}


@given(texts, st.sets(names))
def test_what_is_left_out_is_all_that_is_left_out(text, left_out):
    for selection in parse_optimizations(text, LADDER):
        rest = without(selection, left_out, LADDER)
        assert set(optimizations(rest, LADDER)) - {"fp32"} == set(optimizations(selection, LADDER)) - left_out - {
            "fp32"
        }
        assert parse_optimizations(rest, LADDER) == (rest,)


@given(st.text(alphabet="abfpm16+-, ", max_size=20))
def test_any_text_is_understood_or_refused_with_a_message(text):
    try:
        selections = parse_optimizations(text, LADDER)
    except (OptionError, UnknownNameError):
        return
    assert all(optimizations(selection, LADDER) for selection in selections)


def test_a_graph_that_is_taken_as_it_is_has_no_optimizations():
    assert parse_optimizations("as-is,fp16,as-is", LADDER, as_is=True) == ("as-is", "fp16")
    assert optimizations("as-is", LADDER) == ()


def test_as_is_needs_a_graph_that_was_given():
    with pytest.raises(OptionError) as raised:
        parse_optimizations("fp16,as-is", LADDER)
    assert str(raised.value) == (
        "--optimization=fp16,as-is: as-is takes a graph that was made elsewhere unchanged, and none is given. Name its "
        "folder with --onnx-dir=FOLDER, or name optimizations: fp32, fp16, fmha, nhwc-conv, group-norm, "
        "bias-split-gelu, packed-qkv, bias-add, all, ladder."
    )
