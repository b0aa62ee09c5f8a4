"""Graphs that somebody exported, taken into the cache: they compute what they did, under the names of the model."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from external_folders import WIDTH, make_unet, move_data, write
from onnx import TensorProto, helper
from steps_seen import Seen
from tiny_model import make_catalog

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.onnx_folder import ONNX_REFERENCE, OnnxFolder
from pytest_sdperf.core import progress
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.settings import Selection, Settings
from pytest_sdperf.core.values import Case

SAMPLE = np.random.default_rng(1).standard_normal((2, 16, WIDTH)).astype(np.float32)


@pytest.fixture
def given(tmp_path):
    """Build from a folder, and say what was said."""
    said = []

    def make(model=None, *, weights="random", external=True, reference=None):
        write(tmp_path / "given", "unet", model or make_unet(), external=external)
        selection = Selection(onnx_dir=tmp_path / "given", weights=weights)
        settings = Settings(cache_dir=tmp_path / "cache", in_process=True, selection=selection)
        cache = Cache(tmp_path / "cache", size_bytes=10**9, say=said.append)
        folders = {"folder": OnnxFolder(tmp_path / "given")}
        if reference is not None:
            write(tmp_path / "reference", "unet", reference)
            folders["reference"] = OnnxFolder(tmp_path / "reference", option=ONNX_REFERENCE)
        return Builder(make_catalog(), settings, cache, say=said.append, **folders)

    make.said = said
    make.path = tmp_path / "given/unet/model.onnx"
    with progress.watched_by(Seen(said)):
        yield make


def build(builder, optimization="as-is", **options):
    return builder.build(case(optimization, **options), "unet")


def case(optimization, **options):
    sizes = {"batch_size": 1, "height": 128, "width": 128}
    usual = {"fuser": "native", "exporter": "external", "opset": 18, "shapes": "static", **sizes}
    return Case("tiny", "unet", "", optimization, **{**usual, **options})


def outputs(path, timestep):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {one.name: value for one, value in zip(session.get_inputs(), (SAMPLE, timestep), strict=True)}
    (found,) = session.run(None, dict(inputs.items()))
    return found, [one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()]


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("timestep", [(), (1,), (2,), ("steps",)])
def test_a_build_computes_what_the_file_computes(given, external, timestep):
    # (2,) is added along the last axis, which has 32 places: 2 of the same stand for one.
    model = make_unet(timestep=timestep, sample=(2, 16, WIDTH))
    if timestep == (2,):
        del model.graph.node[1:]
        model.graph.node.append(helper.make_node("ReduceMean", ["timestep"], ["mean"], keepdims=0))
        model.graph.node.append(helper.make_node("Add", ["product", "mean"], ["out_sample"]))
    built = build(given(model, external=external))
    number = np.full([size if isinstance(size, int) else 1 for size in timestep], 7.5, np.float32)
    wanted, *_ = outputs(given.path, number)
    found, inputs, results = outputs(built.path, np.array(7.5, np.float32))
    np.testing.assert_array_equal(found, wanted)
    assert (inputs, results) == (["sample", "timestep"], ["out_sample"])
    assert (built.kind, built.dtype) == ("onnx", "float32")
    assert given.said[0] == f"taking unet from {given.path}"


@pytest.mark.parametrize("location", ["./weights.pb", "data/weights.pb", "./data/große Gewichte.pb"])
def test_weights_are_taken_from_wherever_below_its_folder_the_graph_says_that_they_are(given, location):
    builder = given()
    wanted, *_ = outputs(given.path, np.array(7.5, np.float32))
    data = given.path.parent / location
    data.parent.mkdir(exist_ok=True)
    (given.path.parent / "weights.pb").rename(data)
    move_data(given.path, location)
    found, *_ = outputs(build(builder).path, np.array(7.5, np.float32))
    np.testing.assert_array_equal(found, wanted)


def test_graphs_in_half_precision_beside_one_are_not_taken_for_it(given):
    builder = given()
    (given.path.parent / "model_fp16.onnx").write_bytes(make_unet(dtype="float16").SerializeToString())
    assert build(builder).dtype == "float32"


def test_names_follow_the_model_and_what_it_does_not_need_is_left_out(given):
    model = make_unet(names=("sample", "timestep", "sample_out"))
    model.graph.node.append(helper.make_node("Identity", ["product"], ["out_sample"], name="a name that is taken"))
    model.graph.node.append(helper.make_node("Neg", ["out_sample"], ["negative"]))
    model.graph.input.append(helper.make_tensor_value_info("return_dict", TensorProto.BOOL, []))
    built = build(given(model))
    found, inputs, results = outputs(built.path, np.array(3, np.float32))
    weight = onnx.numpy_helper.to_array(make_unet().graph.initializer[0])
    np.testing.assert_allclose(found, SAMPLE @ weight + 3, rtol=1e-4, atol=1e-5)
    assert (inputs, results) == (["sample", "timestep"], ["out_sample"])
    assert built.notes == (
        "inputs return_dict, which nothing reads, were left out",
        "output sample_out is called out_sample",
    )


def test_a_second_build_takes_nothing_and_a_changed_file_is_taken_again(given):
    first = build(given())
    del given.said[:]
    assert build(given()).key == first.key
    assert given.said == []
    second = build(given(make_unet(opset=17)))
    assert second.key != first.key
    assert given.said[0] == f"taking unet from {given.path}"


def test_optimizations_are_built_upon_it(given):
    built = build(given(), "fp16")
    assert (built.dtype, built.counts["::MatMul"]) == ("float16", 1)
    session = onnxruntime.InferenceSession(built.path, providers=["CPUExecutionProvider"])
    assert [one.type for one in session.get_inputs()] == ["tensor(float16)", "tensor(float)"]


def test_as_is_has_the_dtype_of_its_weights(given):
    assert build(given(make_unet(dtype="float16"))).dtype == "float16"


def test_float16_weights_cannot_become_a_float32_build(given):
    with pytest.raises(BuildError) as raised:
        build(given(make_unet(dtype="float16")), "fp32")
    assert str(raised.value) == (
        f"{given.path} has float16 weights, and a float32 build was asked for. Type --optimization=as-is to take it as "
        "it is or --optimization=fp16 (or a later one) to fuse it, or give a float32 export."
    )


def test_a_graph_that_is_not_valid(given):
    model = make_unet()
    model.graph.node[2].op_type = "NoSuchOperator"
    with pytest.raises(BuildError) as raised:
        build(given(model))
    assert str(raised.value) == (
        f"{given.path} cannot be used: the ONNX checker refuses model.onnx: No Op registered for NoSuchOperator with "
        "domain_version of 18 ==> Context: Bad node spec for node. Name: sum OpType: NoSuchOperator. Export it "
        "without that operator, which onnxruntime does not have."
    )


def test_an_operator_of_a_domain_that_onnxruntime_does_not_have(given):
    model = make_unet()
    model.graph.node[2].op_type, model.graph.node[2].domain = "FooAdd", "acme"
    model.opset_import.append(onnx.helper.make_opsetid("acme", 1))
    with pytest.raises(BuildError) as raised:
        build(given(model))
    assert re.fullmatch(
        rf"{re.escape(str(given.path))} cannot be used: onnxruntime \S+ refuses model\.onnx: .* acme:FooAdd\(-1\) is "
        r"not a registered function/op\. Export it without that operator, which onnxruntime does not have\.",
        str(raised.value),
    )


def with_attention(heads, *, domain="com.microsoft", op_type="MultiHeadAttention", name="attend"):
    """The graph, with an attention behind its product, of which the file says no shape."""
    model = make_unet(opset=23 if not domain else 18)
    model.ir_version = 10
    says = {"num_heads": heads} if domain else {"q_num_heads": heads, "kv_num_heads": heads}
    node = helper.make_node(op_type, ["product"] * 3, ["attended"], name=name, domain=domain, **says)
    model.graph.node.insert(1, node)
    model.graph.node[3].input[0] = "attended"
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


@pytest.mark.parametrize("optimization", ["as-is", "fp16"])
@pytest.mark.parametrize(("name", "told"), [("attend", "attend"), ("", "attended")])
def test_heads_that_do_not_fit_are_refused_with_what_does(given, optimization, name, told):
    with pytest.raises(BuildError) as raised:
        build(given(with_attention(3, name=name)), optimization)
    assert str(raised.value) == (
        f"{given.path} cannot be used: MultiHeadAttention {told!r} has num_heads=3, which does not divide its hidden "
        "size of 32; what divides it: 1, 2, 4, 8, 16, 32. Give the node the heads of its model, or export it again."
    )


def test_heads_of_the_attention_of_onnx_that_do_not_fit_are_refused_too(given):
    with pytest.raises(BuildError) as raised:
        build(given(with_attention(5, domain="", op_type="Attention")))
    assert str(raised.value) == (
        f"{given.path} cannot be used: Attention 'attend' has q_num_heads=5, which does not divide its hidden size of "
        "32; what divides it: 1, 2, 4, 8, 16, 32. Give the node the heads of its model, or export it again."
    )


@pytest.mark.parametrize("heads", [1, 2, 32])
def test_heads_that_fit_are_taken(given, heads):
    assert build(given(with_attention(heads))).counts["com.microsoft::MultiHeadAttention"] == 1


def test_what_is_damaged_is_to_be_exported_again(given):
    model = make_unet()
    model.graph.node[2].input[1] = "nothing-makes-it"
    with pytest.raises(BuildError) as raised:
        build(given(model))
    assert str(raised.value).endswith(". Export it again.")


def test_a_reference_in_float32_and_in_float16_unfused(given):
    builder = given(reference=make_unet())
    exact, half = (builder.unfused_reference(case("as-is"), "unet", dtype=each) for each in ("float32", "float16"))
    assert (exact.dtype, half.dtype) == ("float32", "float16")
    assert not [op for op in half.counts if not op.startswith("::")]


def test_a_reference_must_be_float32(given, tmp_path):
    builder = given(reference=make_unet(dtype="float16"))
    with pytest.raises(BuildError) as raised:
        builder.unfused_reference(case("as-is"), "unet", dtype="float16")
    assert str(raised.value) == (
        f"{tmp_path}/reference/unet/model.onnx has float16 weights and cannot be a reference. Give a float32 export "
        "with --sdperf-onnx-reference=FOLDER, or torch weights with --sdperf-weights=FOLDER."
    )


def test_what_is_expected_of_it_comes_from_its_own_structure_where_no_module_stands_for_it(given):
    assert given().expected_counts("tiny", "unet", "fp16") == {}
    with_module = given(weights="/somewhere")
    assert with_module.expected_counts("tiny", "unet", "fp16") == {
        "::LayerNormalization": 1,
        "com.microsoft::SkipLayerNormalization": 5,
    }
    assert with_module.expected_counts("tiny", "unet", "as-is") == {}


def test_how_the_optimizations_stand(given):
    nothing = "has nothing to fuse"
    rest = dict.fromkeys(("fmha", "nhwc-conv", "group-norm", "bias-split-gelu", "packed-qkv", "bias-add"), nothing)
    assert given().external.standing(case("as-is")) == {"unet": {"fp16": "no (float32 weights)", **rest}}
    half = given(make_unet(dtype="float16")).external
    assert half.standing(case("as-is")) == {"unet": {"fp16": "yes", **rest}}
