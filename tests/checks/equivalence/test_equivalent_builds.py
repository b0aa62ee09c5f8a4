"""Builds in float64: sound ones are their module, and no single fault of their wiring or numbers is."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import tiny_model
from steps_seen import Seen

from pytest_sdperf import builtins
from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.expectations import CaseBuild
from pytest_sdperf.cases.registration import registrar_of
from pytest_sdperf.checks.equivalence.check import LIMIT, Equivalent
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core import progress
from pytest_sdperf.core.alteration import Alteration, BuildStage
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.settings import Selection, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome

# The exporter of torch warns about its own future.
pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]


class OneScale(Alteration):
    """Scales a weight of the graph that is loaded."""

    name, about = "one-scale", "One weight is too large."

    def stages(self, component):
        return (BuildStage.GRAPH,)

    def build(self, stage, source, folder):
        model = ir.load(source)
        FAULTS["one scale"](model.graph)
        ir.save(model, folder / source.name, external_data="model.onnx.data")
        return True


def pytest_sdperf_register(catalog):
    catalog.add_alteration(OneScale())


def builder_of(catalog, folder: Path, *, in_process: bool, weights: str = "random", altered: str = ""):
    selection = Selection(weights=weights)
    settings = Settings(
        cache_dir=folder, in_process=in_process, build_timeout_s=300, selection=selection, altered=altered
    )
    return Builder(catalog, settings, Cache(folder, size_bytes=10**9), say=lambda text: None)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return builder_of(tiny_model.make_catalog(), tmp_path_factory.mktemp("cache"), in_process=True)


def subject(builder, optimization, *, model="tiny", component="unet", fuser="native", shapes="static", **fields):
    made = {"fuser": fuser, "exporter": "dynamo", "opset": 18, "shapes": shapes, "height": 128, "width": 128, **fields}
    case = Case(model, component, "", optimization, **made)
    build = builder.build(case, component, altered=builder.settings.altered)
    return CaseBuild(**vars(build), case=case, builder=builder)


def judged(build):
    check = Equivalent()
    return check.judge(check.run(build), build.case, policy=Policy())


def altered(build, folder, edit):
    """Return a build whose graph somebody edited: as whatever else makes one, under a key of its own."""
    model = ir.load(build.path)
    edit(model.graph)
    path = folder / "model.onnx"
    ir.save(model, path, external_data="model.onnx.data")
    return dataclasses.replace(build, path=path, key=f"{build.key}-{folder.name}")


@pytest.mark.parametrize("shapes", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("optimization", "fuser"), [("fp32", ""), ("fp16", "native"), ("bias-add", "native"), ("bias-add", "ort")]
)
def test_a_sound_build_is_the_function_of_its_module(tiny, optimization, fuser, shapes):
    found = Equivalent().run(subject(tiny, optimization, fuser=fuser, shapes=shapes))
    assert [(link.of, link.to) for link in found] == [("build" if fuser else "export", "torch module")]
    assert all(0 <= link.error < LIMIT for link in found), found


def initializer(graph, change):
    """Change the numbers of the first parameter with several of them."""
    value = next(one for one in graph.initializers.values() if one.const_value.size > 32)
    value.const_value = ir.tensor(change(value.const_value.numpy()), name=value.name)


def one_number(array):
    changed = array.copy()
    changed.reshape(-1)[7] *= 1.1
    return changed


def epsilon(graph):
    norm = next(node for node in graph if "epsilon" in node.attributes)
    norm.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-3)


def exchanged(graph):
    one, other = [node for node in graph if node.op_type == "SkipLayerNormalization"][:2]
    first, second = one.inputs[2], other.inputs[2]
    one.replace_input_with(2, second)
    other.replace_input_with(2, first)


def without_a_bias(graph):
    node = next(one for one in graph if one.op_type == "SkipLayerNormalization" and len(one.inputs) > 4)
    node.replace_input_with(4, None)


FAULTS = {
    "one number": lambda graph: initializer(graph, one_number),
    "one scale": lambda graph: initializer(graph, lambda array: (array * 1.02).astype(array.dtype)),
    "epsilon": epsilon,
    "two norms exchanged": exchanged,
    "a bias lost": without_a_bias,
}


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("one number", r"MatMul \S+ of proj_in"),
        ("one scale", r"MatMul \S+ of proj_in"),
        ("epsilon", r"LayerNormalization \S+ of \S+norm1"),
        ("two norms exchanged", r"com\.microsoft::SkipLayerNormalization \S+ of \S+norm2"),
        ("a bias lost", r"com\.microsoft::SkipLayerNormalization \S+ of \S+norm2"),
    ],
)
def test_a_single_fault_makes_another_function_in_half_precision_too(tiny, tmp_path, name, node):
    verdict = judged(altered(subject(tiny, "bias-add"), tmp_path, FAULTS[name]))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "another-function")
    begin = r"The build of the unet of tiny at bias-add is another function than its export from "
    assert re.match(rf"{begin}{node} on: out_sample is ", verdict.sentence), verdict.sentence


def test_a_node_without_a_definition_makes_nobody_equal(tiny, tmp_path):
    def glue(graph):
        node = next(one for one in graph if one.op_type == "MatMul")
        node.domain, node.op_type = "acme", "Glue"

    verdict = judged(altered(subject(tiny, "fp16"), tmp_path, glue))
    assert (verdict.outcome, verdict.code) == (Outcome.INCONCLUSIVE, "function-not-known")
    assert "Glue" in verdict.sentence
    assert verdict.sentence.endswith(": it has no definition.")


LARGE = {"height": 1024, "width": 1024}


@pytest.mark.parametrize("fuser", ["native", "ort"])
def test_a_large_static_graph_is_proven_at_a_small_size(tiny, fuser):
    found = Equivalent().run(subject(tiny, "bias-add", fuser=fuser, **LARGE))
    assert [(link.of, link.to, link.differences) for link in found] == [("build", "torch module at 128x192", ())]
    assert 0 < found[0].error < LIMIT
    small = Equivalent().run(subject(tiny, "bias-add", fuser=fuser, batch_size=2, height=128, width=192))
    assert [link.errors for link in found] == [link.errors for link in small]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("one number", r"(MatMul|Gemm) \S+ has another input \d"),
        ("epsilon", r"LayerNormalization \S+ has another epsilon"),
        (
            "two norms exchanged",
            r"SkipLayerNormalization \S+ has another input 2; SkipLayerNormalization \S+ has another ",
        ),
        ("a bias lost", r"SkipLayerNormalization \S+ has another input 4"),
    ],
)
def test_what_tells_the_large_file_from_the_small_one_is_named(tiny, tmp_path, name, named):
    verdict = judged(altered(subject(tiny, "bias-add", **LARGE), tmp_path, FAULTS[name]))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "another-graph")
    told = r"^The build of the unet of tiny at bias-add is not its graph at 128x192, which was proven: "
    assert re.match(told + named, verdict.sentence), verdict.sentence


def test_what_alters_a_run_alters_the_small_graph_too(tmp_path):
    catalog = tiny_model.make_catalog()
    with catalog.owned_by(registrar_of(sys.modules[__name__])):
        pytest_sdperf_register(catalog)
    builder = builder_of(catalog, tmp_path, in_process=True, altered="one-scale")
    verdict = judged(subject(builder, "bias-add", **LARGE))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "another-function")


def quantize(graph):
    """Store every matrix as bytes, with one step for each."""
    for value in [one for one in graph.initializers.values() if len(one.shape) == 2]:
        array = value.const_value.numpy()
        step = np.float32(np.abs(array).max() / 127)
        stored = {"bytes": np.round(array / step).astype(np.int8), "step": np.array(step)}
        held = [ir.Value(name=f"{value.name}_{name}", const_value=ir.tensor(one)) for name, one in stored.items()]
        for one in held:
            one.const_value.name, one.dtype, one.shape = one.name, one.const_value.dtype, one.const_value.shape
            graph.register_initializer(one)
        node = ir.node("DequantizeLinear", held)
        ir.convenience.replace_all_uses_with(value, node.outputs[0])
        graph.insert_before(graph[0], node)
        del graph.initializers[value.name]


def quantized(build, folder, edit):
    made = altered(build, folder, lambda graph: (edit(graph), quantize(graph)))
    counts = {**build.counts, "::DequantizeLinear": 8}
    return dataclasses.replace(made, counts=counts)


def test_of_quantized_weights_counts_what_they_stand_for(tiny, tmp_path):
    verdict = judged(quantized(subject(tiny, "fp32", fuser=""), tmp_path, lambda graph: None))
    assert (verdict.outcome, verdict.code) == (Outcome.PASSED, "same-function"), verdict.sentence


@pytest.mark.parametrize("name", ["one scale", "epsilon"])
def test_of_quantized_weights_everything_else_counts(tiny, tmp_path, name):
    def edit(graph):
        if name == "epsilon":
            epsilon(graph)
        else:
            bias = next(one for one in graph.initializers.values() if len(one.shape) == 1)
            bias.const_value = ir.tensor(bias.const_value.numpy() * np.float32(1.02), name=bias.name)

    verdict = judged(quantized(subject(tiny, "fp32", fuser=""), tmp_path, edit))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "another-function"), verdict.sentence


def test_a_graph_that_rounds_what_flows_through_it_is_left_out(tiny):
    build = subject(tiny, "fp32", fuser="")
    rounding = dataclasses.replace(build, counts={**build.counts, "::DequantizeLinear": 8, "::QuantizeLinear": 4})
    with pytest.raises(NoReferenceError) as refused:
        Equivalent().run(rounding)
    assert str(refused.value) == (
        "the graph holds 4 QuantizeLinear: it is no function of its inputs and its module's weights"
    )


def test_without_values_there_is_nothing_to_compare(tmp_path):
    builder = builder_of(tiny_model.make_catalog(), tmp_path, in_process=True, weights="none")
    with pytest.raises(NoReferenceError, match=r"^--sdperf-weights=none builds graphs without values"):
        Equivalent().run(subject(builder, "bias-add"))


def test_what_was_computed_is_not_computed_again(tiny):
    build, said = subject(tiny, "bias-add"), []
    before = Equivalent().run(build)
    again = Builder(tiny.catalog, tiny.settings, Cache(tiny.settings.cache_dir, size_bytes=10**9), say=said.append)
    with progress.watched_by(Seen(said)):
        assert Equivalent().run(dataclasses.replace(build, builder=again)) == before
    assert said == []


def test_builds_that_hold_the_parameters_alike_share_the_values_of_the_module(tmp_path):
    said = []
    builder = builder_of(tiny_model.make_catalog(), tmp_path, in_process=True)
    with progress.watched_by(Seen(said)):
        for fuser in ("native", "ort"):
            Equivalent().run(subject(builder, "bias-add", fuser=fuser))
    computed = [text for text in said if text.endswith("in float64")]
    assert computed == [f"computing the {what} of tiny unet in float64" for what in ("graph", "module", "graph")]


# Faults that comparing the outputs of half precision with its own limit passed, each at a whole UNet.


def norms(graph):
    return [node for node in graph if node.op_type in ("GroupNorm", "SkipGroupNorm")]


def attention(graph):
    found = [node for node in graph if node.op_type == "MultiHeadAttention"]
    return found[len(found) // 2]


def every_epsilon(graph):
    for node in norms(graph):
        node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-3)


def plain_norm(graph):
    node = norms(graph)[len(norms(graph)) // 2]
    for place, number in ((1, 1.0), (2, 0.0)):
        tensor = node.inputs[place].const_value
        node.inputs[place].const_value = ir.tensor(np.full_like(tensor.numpy(), number), name=tensor.name)


def scaled(factor):
    def edit(graph):
        attention(graph).attributes["scale"] = ir.AttrFloat32("scale", factor / math.sqrt(8))

    return edit


def convolution_without_bias(graph):
    node = [one for one in graph if one.op_type == "NhwcConv" and len(one.inputs) > 2 and one.inputs[2]][40]
    tensor = node.inputs[2].const_value
    node.inputs[2].const_value = ir.tensor(np.zeros_like(tensor.numpy()), name=tensor.name)


def residual_before_its_sum(graph):
    """Let a sum of the mid block read what the one before it read."""
    sums = [node for node in graph if node.op_type == "SkipGroupNorm"]
    node = sums[len(sums) // 2]
    earlier = next(one for one in reversed(sums[: len(sums) // 2]) if one.outputs[0].shape == node.outputs[0].shape)
    node.replace_input_with(3, earlier.inputs[0])


WHOLE = {
    "every epsilon": every_epsilon,
    "attention times sqrt 2": scaled(math.sqrt(2)),
    "attention two percent off": scaled(1.02),
    "a norm without its numbers": plain_norm,
    "a residual from elsewhere": residual_before_its_sum,
    "a convolution without its bias": convolution_without_bias,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    catalog = Catalog()
    with catalog.owned_by(registrar_of(builtins)):
        builtins.pytest_sdperf_register(catalog)
    builder = builder_of(catalog, tmp_path_factory.mktemp("cache"), in_process=False)
    return subject(builder, "bias-add", model="sd15-thin")


@pytest.mark.slow
def test_a_whole_unet_is_its_module(whole):
    (build,) = Equivalent().run(whole)
    assert (build.of, build.to) == ("build", "torch module")
    assert 0 < build.error < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_what_hid_in_the_noise_of_half_precision_is_another_function(whole, tmp_path, name):
    verdict = judged(altered(whole, tmp_path, WHOLE[name]))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "another-function"), verdict.sentence
    assert verdict.obtained > 10 * LIMIT
