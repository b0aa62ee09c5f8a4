from __future__ import annotations

import pytest
from external_folders import make_unet, write
from onnx import TensorProto, helper

from pytest_sdperf.builds.onnx_folder import OnnxFolder
from pytest_sdperf.fusing.graph_kinds import drawing, quantized


@pytest.mark.parametrize(
    ("counts", "random", "narrow"),
    [
        ({"::Conv": 3, "::Add": 2}, "", ""),
        ({"::RandomNormalLike": 0, "::DequantizeLinear": 0}, "", ""),
        ({"::RandomUniform": 2, "::Bernoulli": 1, "::Conv": 1}, "1 Bernoulli, 2 RandomUniform", ""),
        ({"::QuantizeLinear": 4, "com.microsoft::MatMulNBits": 1}, "", "1 MatMulNBits, 4 QuantizeLinear"),
        ({"ai.onnx::QLinearConv": 4}, "", "4 QLinearConv"),
    ],
)
def test_kinds_by_operators(counts, random, narrow):
    assert (drawing(counts), quantized(counts)) == (random, narrow)


def test_a_given_graph_says_in_which_integers_it_is_quantized(tmp_path):
    plain = make_unet()
    write(tmp_path, "vae_decoder", plain)
    narrow = make_unet()
    narrow.graph.initializer.append(helper.make_tensor("codes", TensorProto.INT8, [4], [1, 2, 3, 4]))
    narrow.graph.initializer.append(helper.make_tensor("step", TensorProto.FLOAT, [], [0.5]))
    narrow.graph.node.append(helper.make_node("DequantizeLinear", ["codes", "step"], ["wide"]))
    write(tmp_path, "unet", narrow)
    folder = OnnxFolder(tmp_path)
    assert folder.graph("vae_decoder").quantized == ""
    assert folder.graph("unet").quantized == "int8: 1 DequantizeLinear"
