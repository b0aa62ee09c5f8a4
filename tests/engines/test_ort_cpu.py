from __future__ import annotations

import pytest

from pytest_sdperf.engines import _ort
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.fusing.optimizations import LADDER

REFUSED = {
    "nhwc-conv": "NhwcConv",
    "group-norm": "GroupNorm and SkipGroupNorm",
    "bias-split-gelu": "BiasSplitGelu",
    "packed-qkv": "MultiHeadAttention with packed inputs",
    "bias-add": "BiasAdd",
}


@pytest.mark.parametrize("optimization", [optimization.name for optimization in LADDER])
def test_a_optimization_whose_operators_have_no_cpu_kernel_is_not_applicable(optimization):
    expected = (
        f"onnxruntime has no CPU kernel for {REFUSED[optimization]}, which {optimization} needs"
        if optimization in REFUSED
        else None
    )
    assert OrtCpuEngine().supports(optimization) == expected


def test_onnxruntime_has_the_kernels_that_are_said_to_be_there_and_no_others():
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kernels = {
        kernel.op_name
        for kernel in state.get_all_opkernel_def()
        if (kernel.provider, kernel.domain) == ("CPUExecutionProvider", "com.microsoft")
    }
    assert {"MultiHeadAttention", "SkipLayerNormalization", "BiasGelu"} <= kernels
    assert not kernels & {"NhwcConv", "GroupNorm", "SkipGroupNorm", "BiasSplitGelu", "BiasAdd"}


def _attention(dtype, *, packed):
    from onnx import TensorProto, helper

    batch, length, heads, size = 2, 8, 2, 8
    inputs = (
        {"q": [batch, length, heads, 3, size]} if packed else {name: [batch, length, heads * size] for name in "qkv"}
    )
    kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.FLOAT16
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MultiHeadAttention", list(inputs), ["y"], domain="com.microsoft", num_heads=heads)],
        "g",
        [value(name, kind, shape) for name, shape in inputs.items()],
        [value("y", kind, [batch, length, heads * size])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), inputs


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("packed", [False, True])
def test_attention_runs_on_the_cpu_in_both_precisions_unless_its_inputs_are_packed(dtype, packed):
    import numpy as np
    import onnxruntime

    model, inputs = _attention(dtype, packed=packed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    arrays = {name: np.ones(shape, dtype) for name, shape in inputs.items()}
    if packed:
        with pytest.raises(Exception, match=r"Packed QKV .* not implemented for CPU"):
            session.run(None, arrays)
    else:
        assert np.isfinite(session.run(None, arrays)[0]).all()


@pytest.mark.parametrize(("given", "level"), [("all", "ORT_ENABLE_ALL"), ("off", "ORT_DISABLE_ALL")])
def test_what_onnxruntime_rewrites_by_itself_can_be_switched_off(given, level):
    import onnxruntime

    options = _ort.session_options(onnxruntime, {"graph_optimizations": given})
    assert options.graph_optimization_level == getattr(onnxruntime.GraphOptimizationLevel, level)
