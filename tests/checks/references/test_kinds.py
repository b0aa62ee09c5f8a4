"""Graphs whose answers cannot be compared, and graphs of which something is to be known before they are."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from external_folders import make_unet, write
from onnx import helper, numpy_helper
from sample_values import case

from pytest_sdperf.builds.onnx_folder import OnnxFolder
from pytest_sdperf.checks.agreement.check import Agrees
from pytest_sdperf.checks.references.kinds import told_of_quantized, why_random
from pytest_sdperf.checks.replay.check import Batch, Repeats, Resolutions
from pytest_sdperf.core.errors import NoReferenceError

# As nodes that read `product`, whose numbers they take in.
DRAWING = {
    "Bernoulli": {},
    "Multinomial": {"sample_size": 4},
    "RandomNormal": {"shape": [32]},
    "RandomNormalLike": {},
    "RandomUniform": {"shape": [32]},
    "RandomUniformLike": {},
}


def drawing(op_type):
    """A graph that draws: what it has computed, or nothing, goes into the operator, and that into its output."""
    model = make_unet()
    says = DRAWING[op_type]
    model.graph.node.insert(1, helper.make_node(op_type, [] if "shape" in says else ["product"], ["noise"], **says))
    model.graph.node[-1].input[0] = "noise"
    return model


def in_a_branch(op_type):
    """A graph that draws where a condition holds."""
    model = make_unet()
    node = helper.make_node(op_type, [], ["drawn"], shape=[32])
    results = [helper.make_tensor_value_info("drawn", onnx.TensorProto.FLOAT, None)]
    nothing = helper.make_node("ConstantOfShape", ["sizes"], ["drawn"])
    branches = {
        "then_branch": helper.make_graph([node], "then", [], results),
        "else_branch": helper.make_graph([nothing], "else", [], results),
    }
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "on"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([32]), "sizes"))
    model.graph.node.insert(0, helper.make_node("If", ["on"], ["noise"], **branches))
    model.graph.node[-1].input[0] = "noise"
    return model


def runner_of(given, reference=None, *, consumes="onnx"):
    """What is read of a runner of a unet that somebody exported."""
    sides = [None if one is None else SimpleNamespace(folder=OnnxFolder(one)) for one in (given, reference)]
    builder = SimpleNamespace(external=sides[0], reference=sides[1])
    settings = SimpleNamespace(repeats=None, resolutions=())
    return SimpleNamespace(
        context=SimpleNamespace(builder=builder, settings=settings, device=SimpleNamespace(kind="cpu")),
        engine=SimpleNamespace(consumes=consumes),
        case=case(component="unet", exporter="external"),
        components=("unet",),
        is_pipeline=False,
        dtype="float32",
    )


def said(op_type, of="unet"):
    return (
        f"the {of} draws random numbers (1 {op_type}): every process begins them alike and every call goes on with "
        "others, so no two answers say anything about each other. Export it with its noise as an input, or without "
        "what draws: of a VAE encoder the mean and the deviation."
    )


@pytest.mark.parametrize("op_type", DRAWING)
def test_what_draws_random_numbers_is_never_compared(tmp_path, op_type):
    write(tmp_path / "drawing", "unet", drawing(op_type))
    write(tmp_path / "plain", "unet", make_unet())
    runner = runner_of(tmp_path / "drawing", tmp_path / "plain")
    with pytest.raises(NoReferenceError) as caught:
        Agrees().run(runner)
    assert str(caught.value) == said(op_type)
    for check in (Repeats(), Batch(), Resolutions()):
        with pytest.raises(NoReferenceError) as caught:
            check.run(runner)
        assert str(caught.value) == f"not applicable: {said(op_type)}"


@pytest.mark.parametrize("op_type", ["RandomNormal", "RandomUniform"])
def test_what_draws_in_a_branch_draws_as_well(tmp_path, op_type):
    write(tmp_path, "unet", in_a_branch(op_type))
    assert why_random(runner_of(tmp_path)) == said(op_type)


def test_nothing_is_compared_with_what_draws_random_numbers(tmp_path):
    write(tmp_path / "drawing", "unet", drawing("RandomNormalLike"))
    write(tmp_path / "plain", "unet", make_unet())
    runner = runner_of(tmp_path / "plain", tmp_path / "drawing")
    assert why_random(runner) == said("RandomNormalLike", "reference of the unet")
    assert why_random(runner, reference=False) == ""


def test_a_graph_that_nobody_runs_may_draw(tmp_path):
    write(tmp_path, "unet", make_unet())
    write(tmp_path, "vae_encoder", drawing("RandomNormalLike"))
    assert why_random(runner_of(tmp_path)) == ""
    write(tmp_path, "unet", drawing("RandomNormalLike"))
    assert why_random(runner_of(tmp_path, consumes="torch")) == ""


@pytest.mark.parametrize("steps", ["int8", "uint8"])
def test_what_is_quantized_is_told_to_be(tmp_path, steps):
    write(tmp_path, "unet", make_unet())
    assert told_of_quantized(runner_of(tmp_path)) == ""
    model = make_unet()
    for name, number in (("step", np.float32(0.05)), ("zero", np.array(0, steps))):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(number), name))
    for op_type, read, name in (("QuantizeLinear", "product", "q"), ("DequantizeLinear", "q", "d")):
        model.graph.node.insert(len(model.graph.node) - 1, helper.make_node(op_type, [read, "step", "zero"], [name]))
    model.graph.node[-1].input[0] = "d"
    write(tmp_path, "unet", model)
    assert told_of_quantized(runner_of(tmp_path)) == (
        f"The unet is quantized ({steps}: 1 DequantizeLinear, 1 QuantizeLinear). Numbers of so few bits are farther "
        "from the reference than float32, whose limit this is: what a quantizer costs is no fault of the engine."
    )
