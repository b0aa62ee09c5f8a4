"""Somebody brings an exported pipeline: counted, compared, measured, kept in a baseline, and looked at as it is."""

from __future__ import annotations

import json

import graph_zoo
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from half_fused import lose_silus
from user_project import RECORD, joined, report_of

from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.fusing.optimizations import LADDER

pytestmark = pytest.mark.slow

TESTS = """
    import pytest

    pytestmark = pytest.mark.sdperf(components=["text_encoder"])

    def test_counts(build, expected_counts, fused):
        fused(build, expected_counts)

    def test_outputs(runner, agree):
        agree(runner)

    def test_speed(runner, bench):
        bench(runner)
"""
NAME = "torch-2.13/sd15-thin-text_encoder-dynamo-18-static"
OPTIMIZATIONS = {optimization.name: optimization for optimization in LADDER}
NOTHING = "has nothing to fuse"


def save(model: ir.Model, folder) -> None:
    (folder / "text_encoder").mkdir(parents=True)
    ir.save(model, folder / "text_encoder/model.onnx", external_data="model.onnx_data")


@pytest.fixture
def given(user):
    # A conftest that registers nothing: the model is one of the suite's own.
    user.project(conftest="pass", tests=TESTS, options={"model": "sd15-thin", "fuser": "native"})
    save(graph_zoo.load(NAME), user.path / "plain")
    model = graph_zoo.load(NAME)
    fuse(
        model,
        [fusion for optimization in ("fp16", "fmha") for fusion in OPTIMIZATIONS[optimization].fusions()],
        to_float16=True,
    )
    save(model, user.path / "fused")
    return user


def test_a_folder_serves_every_suite_and_has_a_baseline_of_its_own(given):
    flags = ("--sdperf-onnx-dir=plain", "--sdperf-optimization=fmha", "-rs")
    first = given.run(*flags, *RECORD)
    first.assert_outcomes(passed=2, skipped=1)
    assert given.outcomes("fusions") == ["PASSED"]
    assert given.outcomes() == ["NEW"]
    reason = (
        "nothing to compare the text_encoder with: --sdperf-onnx-dir holds graphs alone. Type --sdperf-weights=FOLDER "
        "with the torch weights that they were exported from, or --sdperf-onnx-reference=FOLDER with a float32 export "
        "of them."
    )
    assert any(line.endswith(reason) for line in first.outlines)
    (key,) = given.stored_cases()
    assert "exporter=external opset=18 shapes=static weights=onnx-" in key
    given.run(*flags, "--sdperf-onnx-reference=plain")
    assert given.failures() == []
    assert given.outcomes() != ["NEW"]  # one process on a busy machine does not say more
    (agreement,) = given.agreements()
    assert (agreement["by"], agreement["reference"], agreement["dtype"]) == ("onnxruntime", "float32", "float16")
    # Other weights are another case. The first matrix is of the tokens: without it no input counts.
    model = onnx.load(given.path / "plain/text_encoder/model.onnx")
    *_, weight = (one for one in model.graph.initializer if len(one.dims) == 2 and len(one.raw_data) > 10**4)
    weight.raw_data = np.zeros(len(weight.raw_data), np.uint8).tobytes()
    (given.path / "other/text_encoder").mkdir(parents=True)
    onnx.save_model(model, given.path / "other/text_encoder/model.onnx")
    third = given.run("--sdperf-onnx-dir=other", "--sdperf-optimization=fmha", "--sdperf-onnx-reference=plain")
    third.assert_outcomes(passed=2, failed=1)
    assert given.outcomes() == ["NEW"]
    (agreement,) = given.agreements()
    assert agreement["error"] > agreement["limit"]


def test_a_graph_that_is_fused_already_says_which_optimizations_it_has(given):
    result = given.run("--sdperf-onnx-dir=fused", "--sdperf-optimization=as-is", "--sdperf-onnx-reference=plain", "-v")
    result.assert_outcomes(passed=3)
    optimizations = {
        "fp16": "yes", "fmha": "yes", "nhwc-conv": NOTHING, "group-norm": NOTHING, "bias-split-gelu": NOTHING,
        "packed-qkv": NOTHING, "bias-add": NOTHING,
    }  # fmt: skip
    assert [report["optimizations"] for report in given.results()["reports"]] == [{"text_encoder": optimizations}] * 3
    assert given.outcomes("fusions") == ["PASSED"]
    assert (
        f"optimizations of text_encoder: fp16 yes, fmha yes, nhwc-conv {NOTHING}, group-norm {NOTHING}, "
        f"bias-split-gelu {NOTHING}, packed-qkv {NOTHING}, bias-add {NOTHING}"
    ) in joined(report_of(result))


def test_a_graph_that_is_not_fused_is_new_as_it_is_and_a_gap_once_it_was_seen(given):
    as_is = ("--sdperf-onnx-dir=plain", "--sdperf-optimization=as-is", "-k", "counts")
    sentence = (
        "The text_encoder graph of sd15-thin, taken as it is, could be fused further: fp16 no (float32 weights, 24 "
        "LayerNormalization left, 12 Sigmoid left), fmha no (12 Softmax left)."
    )
    first = given.run(*as_is, "--sdperf-update-baselines", "--sdperf-explain=why.json", "-v")
    first.assert_outcomes(passed=1)
    (verdict,) = given.verdicts("fusions")
    assert (verdict["outcome"], verdict["code"], verdict["sentence"]) == (
        "NEW",
        "optimizations-missing-unknown",
        sentence,
    )
    assert sentence in joined(report_of(first))
    fused = (
        "sd15-thin text_encoder as-is: LayerNormalization 1 of 1, MultiHeadAttention 0 of 12, QuickGelu 0 of 12, "
        "SkipLayerNormalization 0 of 24, 24 more LayerNormalization"
    )
    assert fused in joined(report_of(first))
    (explained,) = json.loads((given.path / "why.json").read_text(encoding="utf-8"))["cases"]
    attentions = [one for one in explained["unfused"] if one["op"] == "com.microsoft::MultiHeadAttention"]
    assert len(attentions) == 12
    assert {(one["op_type"], one["reason"]) for one in attentions} == {
        ("Softmax", "the graph is taken as it is; the fuser native fuses it")
    }
    # Seen and accepted: what is missing is no news any more.
    second = given.run(*as_is)
    (verdict,) = given.verdicts("fusions")
    assert (verdict["outcome"], verdict["code"], verdict["sentence"]) == ("GAP", "optimizations-missing", sentence)
    assert "GAP 1 graph lacks operators, as is stored of it: pytest -v tells which and why" in report_of(second)


ENCODER_NAME = "torch-2.13/sd15-thin-vae_encoder-dynamo-18-static"
ENCODER_TESTS = """
    import pytest

    pytestmark = pytest.mark.sdperf(components=["vae_encoder"])

    def test_counts(build, expected_counts, fused):
        fused(build, expected_counts)
"""
COULD = "The vae_encoder graph of sd15-thin, taken as it is, could be fused further:"
WHOLE = (
    "The vae_encoder graph of sd15-thin, taken as it is, has every optimization of the ladder that its structure "
    "allows."
)


def fused_elsewhere():
    model = graph_zoo.load(ENCODER_NAME)
    fuse(model, [fusion for optimization in LADDER for fusion in optimization.fusions()], to_float16=True)
    return model


def without_silus():
    model = fused_elsewhere()
    lose_silus(model, "Sigmoid")
    return model


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (fused_elsewhere, ("PASSED", WHOLE)),
        (without_silus, ("NEW", f"{COULD} group-norm partly (14 GroupNorm left, 7 SkipGroupNorm left).")),
    ],
    ids=["whole", "silus-lost"],
)
def test_what_a_graph_lacks_that_was_fused_elsewhere_is_told_and_can_be_had(user, make, told):
    user.project(conftest="pass", tests=ENCODER_TESTS, options={"model": "sd15-thin", "fuser": "native"})
    (user.path / "given/vae_encoder").mkdir(parents=True)
    ir.save(make(), user.path / "given/vae_encoder/model.onnx", external_data="model.onnx_data")
    user.run("--sdperf-onnx-dir=given", "--sdperf-optimization=as-is").assert_outcomes(passed=1)
    (verdict,) = user.verdicts("fusions")
    assert (verdict["outcome"], verdict["sentence"]) == told
    user.run("--sdperf-onnx-dir=given", "--sdperf-optimization=bias-add").assert_outcomes(passed=1)
    (verdict,) = user.verdicts("fusions")
    assert verdict["outcome"] == "PASSED"
    assert verdict["sentence"] == (
        "The vae_encoder graph of sd15-thin at bias-add, fused by native, has every operator that its own structure "
        "allows (51)."
    )


def changed(folder, *nodes, **weights):
    """The text encoder with further nodes behind its first output, whose name in them is `before`."""
    model = ir.to_proto(graph_zoo.load(NAME))
    name = model.graph.output[0].name
    for node in model.graph.node:
        node.input[:] = ["before" if each == name else each for each in node.input]
        node.output[:] = ["before" if each == name else each for each in node.output]
    model.graph.node.extend(nodes)
    model.graph.node[-1].output[0] = name
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in weights.items())
    (folder / "text_encoder").mkdir(parents=True)
    onnx.save_model(model, folder / "text_encoder/model.onnx")


def test_a_graph_that_draws_random_numbers_is_optimized_and_never_compared(given):
    make = onnx.helper.make_node
    nodes = [make("RandomNormalLike", ["before"], ["noise"], dtype=1), make("Add", ["before", "noise"], ["sum"])]
    changed(given.path / "drawing", *nodes)
    shared = ("--sdperf-onnx-dir=drawing", "--sdperf-onnx-reference=drawing", "-rs", "-k", "counts or outputs")
    result = given.run(*shared, "--sdperf-optimization=fp16")
    result.assert_outcomes(passed=1, skipped=1)
    reason = (
        "the text_encoder draws random numbers (1 RandomNormalLike): every process begins them alike and every call "
        "goes on with others, so no two answers say anything about each other. Export it with its noise as an input, "
        "or without what draws: of a VAE encoder the mean and the deviation."
    )
    assert any(line.endswith(reason) for line in result.outlines)


def test_a_quantized_graph_is_called_so(given):
    """As ONNX Runtime's quantizer leaves it: steps of integers between two operators, and no types written down."""
    make, scale = onnx.helper.make_node, ["step", "zero"]
    nodes = [make("QuantizeLinear", ["before", *scale], ["q"]), make("DequantizeLinear", ["q", *scale], ["d"])]
    changed(given.path / "int8", *nodes, step=np.float32(0.05), zero=np.array(0, np.int8))
    shared = ("--sdperf-onnx-dir=int8", "--sdperf-onnx-reference=plain", "-k", "counts or outputs")
    text = joined(given.run(*shared, "--sdperf-optimization=as-is").outlines)
    quantized = "int8: 1 DequantizeLinear, 1 QuantizeLinear"
    assert f"fp16 no (float32 and quantized weights, {quantized}" in text
    assert (
        f"The text_encoder is quantized ({quantized}). Numbers of so few bits are farther from the reference than "
        "float32, whose limit this is: what a quantizer costs is no fault of the engine."
    ) in text
    half = given.run(*shared, "--sdperf-optimization=fp16")
    assert half.parseoutcomes()["passed"] >= 1  # its graph: it is valid, and every operator is fused
