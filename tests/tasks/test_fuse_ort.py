from __future__ import annotations

import gc
import json
import logging
import math
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tiny_model import make_catalog

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.tasks import TaskContext, _ort_failures, fuse_ort
from pytest_sdperf.tasks._fuse_graph import FuseGraph
from pytest_sdperf.tasks.sampling.phases import Silent

WIDTH = 32


def _gelu(*, divisor: float = math.sqrt(2)):
    """The activation of the second half of the last value; onnxruntime takes it only for the first output of a node."""
    scope = "['', 'block.0.act', 'gelu']"
    nodes = [
        helper.make_node("Split", ["y"], ["first", "second"], axis=-1, num_outputs=2),
        helper.make_node("Div", ["second", "divisor"], ["z"]),
        helper.make_node("Erf", ["z"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["p"]),
        helper.make_node("Mul", ["half", "p"], ["h"]),
        helper.make_node("Mul", ["second", "h"], ["activated"]),
        helper.make_node("Concat", ["first", "activated"], ["out_sample"], axis=-1),
    ]
    for index, node in enumerate(nodes):
        node.name = f"gelu_{index}"
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scope)
    return nodes, {"divisor": np.array(divisor), "one": np.array(1.0), "half": np.array(0.5)}


def _source(folder: Path, timestep: int, extra=((), {})) -> Path:
    """A timestep embedding added to a sample, then two residual sums, each normalised: as an exporter emits it."""
    more, constants = extra
    rng = np.random.default_rng(0)
    floats = {
        "frequencies": np.exp(-np.arange(WIDTH) / 4),
        "weight": rng.standard_normal((WIDTH, WIDTH)) / 8,
        **{name: rng.standard_normal(WIDTH) for name in ("g0", "b0", "g1", "b1")},
        **constants,
    }
    nodes = [
        helper.make_node("Cast", ["timestep"], ["t"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["t", "frequencies"], ["angle"]),
        helper.make_node("Sin", ["angle"], ["sin"]),
        helper.make_node("Mul", ["sample", "sin"], ["x0"]),
        helper.make_node("LayerNormalization", ["x0", "g0", "b0"], ["n0"], axis=-1),
        helper.make_node("MatMul", ["n0", "weight"], ["m0"]),
        helper.make_node("Add", ["m0", "x0"], ["x1"]),
        helper.make_node("LayerNormalization", ["x1", "g1", "b1"], ["n1"], axis=-1),
        helper.make_node("MatMul", ["n1", "weight"], ["m1"]),
        helper.make_node("Add", ["m1", "x1"], ["y" if more else "out_sample"]),
    ]
    for index, node in enumerate(nodes):
        node.name = f"node_{index}"
    for node, name in ((nodes[4], "norm1"), (nodes[7], "norm2")):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['', 'block.0.{name}', 'layer_norm']")
    nodes.extend(more)
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("sample", TensorProto.FLOAT, [2, 16, WIDTH]),
            helper.make_tensor_value_info("timestep", timestep, []),
        ],
        [helper.make_tensor_value_info("out_sample", TensorProto.FLOAT, [2, 16, WIDTH])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in floats.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name="pytorch")
    model.ir_version = 10
    onnx.save(model, folder / "source.onnx")
    return folder / "source.onnx"


def _fuse(
    folder: Path, optimizations=("fp32", "fp16"), dtype="float16", *, timestep=TensorProto.INT64, float32=("timestep",),
    extra=((), {}), source=_source,
):  # fmt: skip
    out = folder / "out"
    out.mkdir()
    request = FuseGraph(source(folder, timestep, extra), "unet", optimizations, dtype, float32=float32)
    answer = fuse_ort.run(request, TaskContext(out, make_catalog(), Silent(), lambda text: None))
    return out / fuse_ort.FILE, answer


def _session(path: Path):
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def _run(path: Path, sample, timestep, dtype=np.int64):
    return _session(path).run(None, {"sample": sample, "timestep": np.array(timestep, dtype=dtype)})[0]


def test_fp16_optimization_fuses_residual_sums_and_converts_inputs_and_outputs(tmp_path):
    path, answer = _fuse(tmp_path)
    assert answer.graph.counts["com.microsoft::SkipLayerNormalization"] == 1
    assert answer.graph.counts["::LayerNormalization"] == 1
    assert answer.graph.without_cpu_kernel == ()
    assert answer.seconds > 0
    model = onnx.load(path, load_external_data=False)
    kinds = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    assert kinds == {
        "sample": TensorProto.FLOAT16, "timestep": TensorProto.INT64, "out_sample": TensorProto.FLOAT16
    }  # fmt: skip
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.onnx", "model.onnx.data", "sites.json"]


def test_what_was_fused_and_what_was_left_is_written_beside_the_model(tmp_path):
    from pytest_sdperf.fusing.missed import LEFT

    path, _ = _fuse(tmp_path, extra=_gelu())
    sites = json.loads(path.with_name("sites.json").read_text(encoding="utf-8"))
    assert [(site["op"], site["path"], site["op_type"], site["reason"]) for site in sites] == [
        ("::LayerNormalization", "block.0.norm1", "LayerNormalization", ""),
        ("com.microsoft::SkipLayerNormalization", "block.0.norm2", "SkipLayerNormalization", ""),
        ("com.microsoft::Gelu", "block.0.act", "Erf", LEFT),
    ]


def test_a_place_that_no_fuser_can_take_has_the_reason_of_native(tmp_path):
    path, answer = _fuse(tmp_path, extra=_gelu(divisor=1.5))
    sites = json.loads(path.with_name("sites.json").read_text(encoding="utf-8"))
    (site,) = (site for site in sites if site["op"] == "com.microsoft::Gelu")
    assert (site["path"], site["op_type"], site["reason"]) == (
        "block.0.act", "Div", "its argument is not divided by the square root of 2"
    )  # fmt: skip
    assert answer.limits == ()


def test_where_the_leftovers_cannot_be_found_out_a_note_says_so(tmp_path, monkeypatch):
    from pytest_sdperf.fusing import missed

    def crash(*arguments):
        raise KeyError("x")

    monkeypatch.setattr(missed, "find_leftovers", crash)
    path, answer = _fuse(tmp_path)
    assert answer.notes[-1] == "what the optimizer left was not found out: KeyError: 'x'"
    assert not path.with_name("sites.json").exists()


def test_the_sinusoids_of_the_timestep_stay_exact(tmp_path):
    path, _ = _fuse(tmp_path)
    sample = np.random.default_rng(1).standard_normal((2, 16, WIDTH)).astype(np.float16)
    obtained = _run(path, sample, 981).astype(np.float64)
    expected = _run(tmp_path / "source.onnx", sample.astype(np.float32), 981)
    error = np.linalg.norm(obtained - expected) / np.linalg.norm(expected)
    # Angles in float16 give 1.4e-2.
    assert error < 3e-3


def _distance(obtained, expected):
    return np.linalg.norm(obtained.astype(np.float64) - expected) / np.linalg.norm(expected)


def test_a_timestep_that_the_model_declares_as_float32_reaches_the_sinusoids_whole(tmp_path):
    path, _ = _fuse(tmp_path, timestep=TensorProto.FLOAT)
    sample = np.random.default_rng(1).standard_normal((2, 16, WIDTH)).astype(np.float16)
    expected = _run(tmp_path / "source.onnx", sample.astype(np.float32), 980.6, np.float32)
    rounded = _run(tmp_path / "source.onnx", sample.astype(np.float32), np.float16(980.6), np.float32)
    assert _distance(_run(path, sample, 980.6, np.float32), expected) < 3e-3
    assert _distance(rounded, expected) > 1e-2


@pytest.mark.parametrize("float32", [(), ("timestep",), ("timestep", "out_sample"), ("sample", "timestep")])
def test_exactly_the_declared_inputs_and_outputs_keep_float32(tmp_path, float32):
    path, answer = _fuse(tmp_path, timestep=TensorProto.FLOAT, float32=float32)
    model = onnx.load(path, load_external_data=False)
    kinds = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    kept = {name for name, kind in kinds.items() if kind == TensorProto.FLOAT}
    assert kept == set(float32)
    assert set(kinds) - kept == {name for name, kind in kinds.items() if kind == TensorProto.FLOAT16}
    assert answer.graph.counts["com.microsoft::SkipLayerNormalization"] == 1
    read = {kind.name: "float32" if kind.name in kept else "float16" for kind in model.graph.input}
    inputs = {"sample": np.ones((2, 16, WIDTH), read["sample"]), "timestep": np.array(3, read["timestep"])}
    (obtained,) = _session(path).run(None, inputs)
    assert _distance(obtained, _run(tmp_path / "source.onnx", np.ones_like(obtained, "float32"), 3, np.float32)) < 3e-3


def test_a_traced_export_which_says_no_types_is_converted_all_the_same(tmp_path):
    nodes = [
        helper.make_node("Conv", ["sample", "weight"], ["image"], name="/conv/Conv"),
        helper.make_node("Constant", [], ["scales"], value=numpy_helper.from_array(np.float32([1, 1, 2, 2]))),
        helper.make_node("Resize", ["image", "", "scales"], ["out_sample"], name="/up/Resize", mode="nearest"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("sample", TensorProto.FLOAT, [2, 4, 8, 8])],
        [value("out_sample", TensorProto.FLOAT, [2, 8, 16, 16])],
        [numpy_helper.from_array(np.ones((8, 4, 1, 1), np.float32), "weight")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name="pytorch")
    model.ir_version = 10
    onnx.save(model, tmp_path / "source.onnx")
    (tmp_path / "out").mkdir()
    request = FuseGraph(tmp_path / "source.onnx", "vae_decoder", ("fp32", "fp16", "nhwc-conv"), "float16")
    answer = fuse_ort.run(request, TaskContext(tmp_path / "out", make_catalog(), Silent(), lambda text: None))
    assert answer.graph.counts["com.microsoft::NhwcConv"] == 1
    assert answer.graph.without_cpu_kernel == ("com.microsoft::NhwcConv",)
    # Its fused node has another name, and so has what it returns.
    (site,) = json.loads((tmp_path / "out" / "sites.json").read_text(encoding="utf-8"))
    assert (site["op"], site["path"], site["reason"]) == ("com.microsoft::NhwcConv", "conv", "")


def _half_of_t(name: str):
    return helper.make_node("Mul", ["half", "half"], [name])


def _round_trip(*readers):
    """A kept input `t`, its cast `half`, the cast `back` of that, and what reads them."""
    nodes = [
        helper.make_node("Cast", ["t"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["half"], ["back"], to=TensorProto.FLOAT),
        *readers,
    ]
    value = helper.make_tensor_value_info
    outputs = [value(node.output[0], TensorProto.UNDEFINED, None) for node in readers]
    inputs = [value("t", TensorProto.FLOAT, [1]), value("c", TensorProto.BOOL, [])]
    return helper.make_graph(nodes, "g", inputs, outputs)


def _wiring(graph):
    return [(node.op_type, *node.input) for node in graph.node]


def test_a_way_through_float16_is_cut_short_and_what_nobody_reads_is_removed():
    graph = _round_trip(helper.make_node("Sin", ["back"], ["a"]), helper.make_node("Cos", ["t"], ["b"]))
    fuse_ort.drop_round_trips(graph)
    assert _wiring(graph) == [("Sin", "t"), ("Cos", "t")]


def test_a_half_precision_reader_keeps_its_cast():
    graph = _round_trip(helper.make_node("Sin", ["back"], ["a"]), _half_of_t("b"))
    fuse_ort.drop_round_trips(graph)
    assert _wiring(graph) == [("Cast", "t"), ("Sin", "t"), ("Mul", "half", "half")]


def test_readers_in_subgraphs_count():
    branches = {
        "then_branch": helper.make_graph([helper.make_node("Sin", ["back"], ["x"])], "then", [], []),
        "else_branch": helper.make_graph([_half_of_t("y")], "else", [], []),
    }
    graph = _round_trip(helper.make_node("If", ["c"], ["a"], **branches))
    fuse_ort.drop_round_trips(graph)
    assert _wiring(graph) == [("Cast", "t"), ("If", "c")]
    inner = {part.name: _wiring(part.g) for part in graph.node[1].attribute}
    assert inner == {"then_branch": [("Sin", "t")], "else_branch": [("Mul", "half", "half")]}


def test_an_input_that_becomes_float16_and_a_value_that_is_no_input_are_left_alone():
    graph = _round_trip(helper.make_node("Sin", ["back"], ["a"]))
    graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    before = _wiring(graph)
    fuse_ort.drop_round_trips(graph)
    assert _wiring(graph) == before


def test_float32_selection_keeps_float32(tmp_path):
    path, answer = _fuse(tmp_path, optimizations=("fp32", "fmha"), dtype="float32")
    assert answer.graph.counts.get("com.microsoft::SkipLayerNormalization", 0) == 0
    sample = np.ones((2, 16, WIDTH), np.float32)
    assert np.allclose(_run(path, sample, 3), _run(tmp_path / "source.onnx", sample, 3), atol=1e-6)


def test_everything_is_off_except_what_the_optimizations_switch_on():
    catalog = make_catalog()
    options = fuse_ort.fusion_options("unet", fuse_ort.ort_options(("fp32", "fp16"), catalog))
    on = {name for name, value in vars(options).items() if name.startswith("enable_") and value}
    assert on == {
        "enable_shape_inference", "enable_layer_norm", "enable_skip_layer_norm", "enable_bias_skip_layer_norm",
        "enable_gelu", "enable_bias_gelu",
    }  # fmt: skip


def test_a_fusion_that_onnxruntime_lacks():
    import onnxruntime

    with pytest.raises(BuildError) as raised:
        fuse_ort.fusion_options("unet", ["enable_magic"])
    assert str(raised.value) == (
        f"onnxruntime {onnxruntime.__version__} has no fusion 'enable_magic' for unet. It has: enable_attention, "
        f"enable_bias_add, enable_bias_gelu, enable_bias_skip_layer_norm, enable_bias_splitgelu, "
        f"enable_embed_layer_norm, enable_gelu, enable_gelu_approximation, enable_gemm_fast_gelu, enable_group_norm, "
        f"enable_layer_norm, enable_nhwc_conv, enable_packed_kv, enable_packed_qkv, enable_qordered_matmul, "
        f"enable_rotary_embeddings, enable_shape_inference, enable_skip_group_norm, enable_skip_layer_norm."
    )


def test_an_export_that_says_the_types_of_its_weights_stays_valid_where_some_keep_float32(tmp_path):
    said = helper.make_tensor_value_info("frequencies", TensorProto.FLOAT, [WIDTH])

    def with_types(folder, timestep, extra=((), {})):
        path = _source(folder, timestep, extra)
        model = onnx.load(path)
        model.graph.value_info.append(said)
        onnx.save(model, path)
        return path

    path, _ = _fuse(tmp_path, source=with_types)
    onnx.checker.check_model(path, full_check=True)
    kept = {tensor.name: tensor.data_type for tensor in onnx.load(path).graph.initializer}
    assert kept["frequencies"] == TensorProto.FLOAT


def test_what_the_optimizer_makes_passes_the_full_checker_or_is_refused_with_the_node(tmp_path, monkeypatch):
    def wrong(proto):
        (node,) = [node for node in proto.node if node.op_type == "Sin"]
        for value in proto.value_info:
            if value.name == node.output[0]:
                value.type.tensor_type.elem_type = TensorProto.FLOAT16

    monkeypatch.setattr(fuse_ort, "drop_types_of_weights", wrong)
    with pytest.raises(BuildError) as raised:
        _fuse(tmp_path)
    assert str(raised.value) == (
        "what the optimizer of onnxruntime made is no valid model: the ONNX checker refuses model.onnx: Sin 'node_2' "
        "makes 'sin_cast_to_fp16' in float32, and the graph says float16. That is a fault of onnxruntime, not of "
        "pytest_sdperf. Fuse the graph with --fuser=native."
    )


def test_an_optimizer_that_raises_is_a_build_error(tmp_path, monkeypatch):
    from onnxruntime.transformers import optimizer

    def crash(*arguments, **options):
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")

    monkeypatch.setattr(optimizer, "optimize_model", crash)
    with pytest.raises(BuildError) as raised:
        _fuse(tmp_path)
    assert str(raised.value) == (
        f"the optimizer of onnxruntime {onnxruntime.__version__} failed: TypeError: only 0-dimensional arrays can be "
        "converted to Python scalars. That is a fault of onnxruntime, not of pytest_sdperf. Fuse the graph with "
        "--fuser=native."
    )


def _norm_in_float16(path: Path) -> Path:
    """A group norm of a graph that is float16 already, from which onnxruntime 1.32 makes a weight in float32."""
    constants = {
        "three": np.array([0, 32, -1]), "ones": np.ones(32, np.float16), "zeros": np.zeros(32, np.float16),
        "gamma": np.ones((64, 1, 1), np.float16), "beta": np.zeros((64, 1, 1), np.float16),
    }  # fmt: skip
    nodes = [
        helper.make_node("Reshape", ["sample", "three"], ["split"]),
        helper.make_node("InstanceNormalization", ["split", "ones", "zeros"], ["normal"]),
        helper.make_node("Shape", ["sample"], ["sizes"]),
        helper.make_node("Reshape", ["normal", "sizes"], ["joined"]),
        helper.make_node("Mul", ["joined", "gamma"], ["scaled"]),
        helper.make_node("Add", ["scaled", "beta"], ["out_sample"]),
    ]
    kind, shape = TensorProto.FLOAT16, [1, 64, 4, 4]
    inputs, outputs = ([helper.make_tensor_value_info(name, kind, shape)] for name in ("sample", "out_sample"))
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def test_a_fusion_of_onnxruntime_that_fails_is_named_with_the_way_round_it(tmp_path):
    source = _norm_in_float16(tmp_path / "source.onnx")
    request = FuseGraph(source, "unet", ("fp32", "fp16", "group-norm"), "float16")
    with pytest.raises(BuildError) as raised:
        fuse_ort.run(request, TaskContext(tmp_path, make_catalog(), Silent(), lambda text: None))
    text = str(raised.value)
    with warnings.catch_warnings():  # onnxruntime leaves a temporary folder behind when it raises
        warnings.simplefilter("ignore", ResourceWarning)
        del raised
        gc.collect()
    what, said, advice = text.partition(". That is a fault of ")
    # onnx's own sentence about 128 bytes for 256 is another one in 1.18, which ends in a full stop and a space.
    upstream = what.removeprefix(
        f"the optimizer of onnxruntime {onnxruntime.__version__} failed in its fusion group_norm: ValueError: "
    )
    assert "does not match tensor's size" in upstream
    assert upstream == upstream.rstrip(". ") != what
    assert f"{said}{advice}" == (
        ". That is a fault of onnxruntime, not of pytest_sdperf. Fuse the graph with --fuser=native, or leave that "
        "fusion out with --optimization=all-group-norm."
    )


# Modules of fusions that models of Stable Diffusion go through -> the optimization that switches each on.
FUSIONS = {
    "attention": "fmha", "attention_clip": "fmha", "attention_unet": "fmha", "attention_vae": "fmha",
    "bias_add": "bias-add", "biasgelu": "fp16", "biassplitgelu": "bias-split-gelu", "gelu": "fp16",
    "group_norm": "group-norm", "layernorm": "fp16", "nhwc_conv": "nhwc-conv", "skip_group_norm": "group-norm",
    "skiplayernorm": "fp16",
}  # fmt: skip


@pytest.mark.parametrize("deeper", ["", "def deeper(): raise ValueError('too small.')"], ids=["itself", "in onnx"])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_every_fusion_that_fails_is_named_with_what_leaves_it_out(fusion, deeper):
    module = Path(onnxruntime.__file__).parent / "transformers" / f"fusion_{fusion}.py"
    assert module.is_file()
    names: dict[str, object] = {}
    if deeper:
        exec(compile(deeper, "/x/onnx/helper.py", "exec"), names)
    text = "deeper()" if deeper else "raise ValueError('too small.')"
    with pytest.raises(ValueError) as raised:
        exec(compile(text, str(module), "exec"), names)
    switches = {one.name: one.ort_options for one in LADDER}
    assert str(_ort_failures.failed(raised.value, switches)) == (
        f"the optimizer of onnxruntime {onnxruntime.__version__} failed in its fusion {fusion}: ValueError: too small. "
        "That is a fault of onnxruntime, not of pytest_sdperf. Fuse the graph with --fuser=native, or leave that "
        f"fusion out with --optimization=all-{FUSIONS[fusion]}."
    )


def _log(module: str, level: int, text: str) -> None:
    logger = logging.getLogger(module)
    if logger.isEnabledFor(level):
        logger.handle(logging.LogRecord(module, level, f"/x/{module}.py", 1, text, (), None))


def test_failures_in_the_log_become_notes():
    with fuse_ort.failures_logged() as notes:
        for _ in range(3):
            _log("fusion_attention_unet", logging.DEBUG, "failed to match k path")
        _log("fusion_attention_unet", logging.DEBUG, "found 4 heads")
        _log("onnx_model", logging.DEBUG, "Failed to match index=0 op_type=Sub")
        _log("fusion_skiplayernorm", logging.WARNING, "symbolic shape inference disabled")
        _log("somebody_else", logging.WARNING, "failed")
    assert fuse_ort.summary(notes) == [
        "fusion_attention_unet: failed to match k path (3 times)",
        "fusion_skiplayernorm: symbolic shape inference disabled",
    ]
    assert not logging.getLogger("fusion_attention_unet").isEnabledFor(logging.DEBUG)


def test_notes_are_counted_and_limited():
    assert fuse_ort.summary({"a: x": 1, "b: y": 48}) == ["b: y (48 times)", "a: x"]
    lines = fuse_ort.summary({f"m: {index:02}": 1 for index in range(25)})
    assert len(lines) == 21
    assert lines[-1] == "and 5 further messages"


def test_a_cast_that_the_converter_repeats_is_kept_once():
    import onnx
    from onnx import TensorProto, helper

    cast = helper.make_node("Cast", ["x"], ["x_cast_to_fp32"], name="x_cast_to_fp32_node", to=TensorProto.FLOAT)
    nodes = [
        cast,
        helper.make_node("Sin", ["x_cast_to_fp32"], ["a"], name="sin"),
        cast,
        helper.make_node("Cos", ["x_cast_to_fp32"], ["b"], name="cos"),
        helper.make_node("Cos", ["x_cast_to_fp32"], ["c"], name="cos"),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT16, [2])]
    outputs = [value(name, TensorProto.FLOAT, [2]) for name in "abc"]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs))
    with pytest.raises(onnx.checker.ValidationError, match="single static assignment"):
        onnx.checker.check_model(model)
    fuse_ort.drop_repeated_nodes(model.graph)
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Cast", "Sin", "Cos", "Cos"]


@pytest.mark.parametrize(
    ("float32_ops", "kind"), [([], TensorProto.FLOAT16), (["MultiHeadAttention"], TensorProto.FLOAT)]
)
def test_operators_that_are_named_stay_float32(tmp_path, float32_ops, kind):
    nodes = [
        helper.make_node("MatMul", ["sample", "weight"], ["query"], name="to_q"),
        helper.make_node(
            "MultiHeadAttention", ["query", "sample", "sample"], ["attended"], name="attention", domain="com.microsoft",
            num_heads=2,
        ),
        helper.make_node("MatMul", ["attended", "weight"], ["out_sample"], name="to_out"),
    ]  # fmt: skip
    value, weight = helper.make_tensor_value_info, np.eye(WIDTH, dtype=np.float32) * 300
    graph = helper.make_graph(
        nodes, "g", [value("sample", TensorProto.FLOAT, [2, 16, WIDTH])],
        [value("out_sample", TensorProto.FLOAT, [2, 16, WIDTH])], [numpy_helper.from_array(weight, "weight")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "source.onnx")
    (tmp_path / "out").mkdir()
    request = FuseGraph(tmp_path / "source.onnx", "unet", ("fp32", "fp16"), "float16", float32_ops=float32_ops)
    fuse_ort.run(request, TaskContext(tmp_path / "out", make_catalog(), Silent(), lambda text: None))
    path = tmp_path / "out" / fuse_ort.FILE
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    (attention,) = (node for node in model.graph.node if node.op_type == "MultiHeadAttention")
    producers = {node.output[0]: node for node in model.graph.node}
    casts = [producers.get(name) for name in attention.input]
    widened = [node is not None and node.op_type == "Cast" and node.attribute[0].i == kind for node in casts]
    assert all(widened) == (kind == TensorProto.FLOAT)
    sample = np.random.default_rng(1).standard_normal((2, 16, WIDTH)).astype(np.float16)
    (obtained,) = _session(path).run(None, {"sample": sample})
    (expected,) = _session(tmp_path / "source.onnx").run(None, {"sample": sample.astype(np.float32)})
    assert _distance(obtained, expected) < 3e-3
