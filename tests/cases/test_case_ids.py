from __future__ import annotations

import dataclasses

import pytest
from _pytest.mark.expression import Expression
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.cases.case_ids import case_id
from pytest_sdperf.core.values import Case

USUAL = Case(
    "",
    "",
    "",
    "",
    fuser="ort",
    exporter="dynamo",
    opset=18,
    shapes="static",
    height=128,
    width=128,
    steps=4,
    scheduler="pndm",
)
UNET = dataclasses.replace(
    USUAL, model="sd15-thin", component="unet", engine="ort-cpu", optimization="fp16", steps=0, scheduler=""
)
PIPELINE = dataclasses.replace(UNET, component="pipeline", steps=4, scheduler="pndm")


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        (UNET, {}, "sd15-thin-unet-on-ort-cpu-at-fp16"),
        (PIPELINE, {}, "sd15-thin-pipeline-on-ort-cpu-at-fp16"),
        (UNET, {"batch_size": 4}, "sd15-thin-unet-on-ort-cpu-at-fp16-batch-4"),
        (UNET, {"width": 256, "height": 192}, "sd15-thin-unet-on-ort-cpu-at-fp16-256x192"),
        (PIPELINE, {"steps": 8, "scheduler": "ddim"}, "sd15-thin-pipeline-on-ort-cpu-at-fp16-8-steps-ddim"),
        (UNET, {"shapes": "dynamic", "opset": 20}, "sd15-thin-unet-on-ort-cpu-at-fp16-dynamic-opset-20"),
        (
            UNET,
            {"fuser": "native", "exporter": "torchscript"},
            "sd15-thin-unet-on-ort-cpu-at-fp16-by-native-from-torchscript",
        ),
        (
            UNET,
            {"engine_options": (("cuda_graph", "on"), ("sdpa", "cudnn"))},
            "sd15-thin-unet-on-ort-cpu-at-fp16-with-cuda_graph-on+sdpa-cudnn",
        ),
        (
            UNET,
            {"engine_options": (("mode", "max-autotune"),), "weights": "org/name"},
            "sd15-thin-unet-on-ort-cpu-at-fp16-with-mode-max-autotune-weights-org%2Fname",
        ),
        (
            UNET,
            {"fp32_ops": "unet:MultiHeadAttention", "shapes": "dynamic"},
            "sd15-thin-unet-on-ort-cpu-at-fp16-fp32-unet-MultiHeadAttention-dynamic",
        ),
        (UNET, {"weights": "folder-12ab"}, "sd15-thin-unet-on-ort-cpu-at-fp16-weights-folder-12ab"),
        (UNET, {"weights": "org/name"}, "sd15-thin-unet-on-ort-cpu-at-fp16-weights-org%2Fname"),
        (UNET, {"engine": "", "batch_size": 2}, "sd15-thin-unet-at-fp16-by-ort-from-dynamo-batch-2"),
        (
            UNET,
            {"engine": "torch", "fuser": "", "exporter": "", "opset": 0, "shapes": ""},
            "sd15-thin-unet-on-torch-at-fp16",
        ),
        (UNET, {"optimization": "fp16+fmha"}, "sd15-thin-unet-on-ort-cpu-at-fp16+fmha"),
        (USUAL, {"model": "sd15-thin", "exporter": "", "steps": 0, "scheduler": ""}, "sd15-thin"),
    ],
)
def test_an_id_reads_as_a_sentence(case, changes, text):
    assert case_id(dataclasses.replace(case, **changes), usual=USUAL) == text


GRAPHS = st.sampled_from([("", "", 0, "")]) | st.tuples(
    st.sampled_from(["ort", "native"]),
    st.sampled_from(["dynamo", "torchscript"]),
    st.sampled_from([17, 18, 20]),
    st.sampled_from(["static", "dynamic"]),
)
# Texts that look like the words around them are the ones that could be confused.
VALUES = st.text(max_size=6) | st.lists(
    st.sampled_from(["weights", "with", "path", "a", "-", "-", "+", "=", ","]), max_size=6
).map("".join)
OPTIONS = st.dictionaries(st.sampled_from(["threads", "cuda_graph", "path", "path-a"]), VALUES).map(
    lambda options: tuple(sorted(options.items()))
)


@st.composite
def cases(draw):
    component = draw(st.sampled_from(["unet", "text_encoder", "text_encoder_2", "pipeline"]))
    whole = component == "pipeline"
    fuser, exporter, opset, shapes = draw(GRAPHS)
    return Case(
        model=draw(st.sampled_from(["sd15", "sd15-thin", "sdxl"])),
        component=component,
        engine=draw(st.sampled_from(["torch", "ort-cpu", "my-at-fp16", "nightly-on-torch"])),
        optimization=draw(st.sampled_from(["fp32", "fp16", "all-fmha", "fp16+fmha", "bias-add"])),
        engine_options=draw(OPTIONS),
        fuser=fuser,
        exporter=exporter,
        opset=opset,
        shapes=shapes,
        fp32_ops=draw(st.sampled_from(["", "unet:MultiHeadAttention", "unet:Softmax,vae:MatMul"])) if exporter else "",
        weights=draw(st.sampled_from(["random-0", "folder-0123", "org/name", "a/b-with-path-a", "weights-a", "a"])),
        batch_size=draw(st.integers(1, 3)),
        height=draw(st.sampled_from([128, 256])),
        width=draw(st.sampled_from([128, 256])),
        steps=draw(st.sampled_from([4, 8])) if whole else 0,
        scheduler=draw(st.sampled_from(["pndm", "ddim"])) if whole else "",
    )


def consumption(case: Case) -> tuple[str, bool]:
    """An engine loads graphs or modules, never both: only that much of two cases depends on each other."""
    return case.engine, bool(case.exporter)


@given(cases(), cases())
def test_two_cases_never_share_an_id(one, other):
    if one.engine == other.engine and bool(one.exporter) != bool(other.exporter):
        return
    assert (case_id(one, usual=USUAL) == case_id(other, usual=USUAL)) == (one == other)


@given(cases())
def test_an_id_holds_nothing_that_a_shell_or_a_node_id_would_split(case):
    assert not set(case_id(case, usual=USUAL)) & set(" []:/\\'\"\n\t")


@given(st.from_regex(r"[a-zA-Z0-9_.-]{1,8}", fullmatch=True))
def test_an_option_is_written_in_characters_that_k_takes(value):
    Expression.compile(case_id(dataclasses.replace(UNET, engine_options=(("threads", value),)), usual=USUAL))
