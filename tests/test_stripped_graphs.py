from __future__ import annotations

import gzip
import lzma

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from stripped_graphs import draw, load_stripped, save_stripped, strip

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.weightless import is_weightless

RNG = np.random.default_rng(0)
HEADER = '<ir_version: 9, opset_import: ["" : 18]>'


def _model(body, **arrays):
    text = f"{HEADER} g (float[1, 96] x) => (float[1, 96] y) {{ {body} }}"
    return ir.from_onnx_text(text, initializers=[ir.tensor(array, name=name) for name, array in arrays.items()])


def _normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def _mlp(dtype=np.float32):
    """Two layers between a norm and a mask: every kind of initializer that an export holds."""
    body = """
        n = LayerNormalization(x, scale, shift)
        h = Gemm<transB = 1>(n, w1, b1)
        r = Reshape(h, shape)
        s = Mul(r, half)
        m = Add(s, mask)
        e = Gather(table, indices)
        a = Add(m, e)
        y = MatMul(a, w2)
    """
    return _model(
        body, scale=_normal(96, dtype=dtype), shift=_normal(96, dtype=dtype), w1=_normal(96, 96, dtype=dtype),
        b1=_normal(96, dtype=dtype), shape=np.array([1, 96]), half=np.array(0.5, dtype),
        mask=np.where(np.arange(96) % 2, np.finfo(dtype).min, 0).astype(dtype), table=_normal(100, 96, dtype=dtype),
        indices=np.array([3]), w2=_normal(96, 96, dtype=dtype),
    )  # fmt: skip


def _arrays(model):
    return {name: value.const_value.numpy() for name, value in model.graph.initializers.items()}


def _missing(model):
    return {
        name for name, value in model.graph.initializers.items() if isinstance(value.const_value, ir.ExternalTensor)
    }


def test_strip_removes_the_weights_and_keeps_the_structure():
    model = _mlp()
    before = _arrays(model)
    assert not is_weightless(model)
    strip(model)
    assert is_weightless(model)
    assert _missing(model) == {"scale", "shift", "w1", "b1", "table", "w2"}
    for name, value in model.graph.initializers.items():
        assert value.const_value.name == name
        assert value.const_value.dtype == ir.DataType.from_numpy(before[name].dtype)
        assert tuple(value.const_value.shape.numpy()) == before[name].shape
        if name in {"shape", "half", "mask", "indices"}:
            np.testing.assert_array_equal(value.const_value.numpy(), before[name])


def test_reading_a_missing_weight_fails():
    model = _mlp()
    strip(model)
    with pytest.raises(FileNotFoundError):
        model.graph.initializers["w1"].const_value.numpy()


def test_stripping_twice_changes_nothing():
    model = _mlp()
    strip(model)
    once = ir.to_proto(model)
    strip(model)
    assert ir.to_proto(model) == once


def test_weights_in_subgraphs_are_stripped_and_drawn():
    text = f"""{HEADER} g (bool c, float[1, 96] x) => (float y) {{
        y = If(c) <then_branch = t () => (float a) <float[96, 96] w = {{{", ".join(["0.5"] * 9215)}, 1.0}}> {{
            a = MatMul(x, w) }}, else_branch = e () => (float b) {{ b = Identity(x) }}>
    }}"""
    model = ir.from_onnx_text(text)
    (value,) = [value for graph in model.graphs() for value in graph.initializers.values()]
    value.const_value = ir.tensor(_normal(96, 96))
    strip(model)
    assert is_weightless(model)
    draw(model)
    assert not is_weightless(model)
    assert value.const_value.numpy().shape == (96, 96)


@given(st.data())
def test_tensors_of_two_values_stay(data):
    values = data.draw(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=2))
    array = np.resize(
        np.array(values, np.float32), data.draw(hnp.array_shapes(min_dims=1, max_dims=2, min_side=65, max_side=70))
    )
    model = _model("y = Add(x, w)", w=array)
    strip(model)
    np.testing.assert_array_equal(model.graph.initializers["w"].const_value.numpy(), array)


@given(size=st.integers(1, 130), dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.bool_]))
def test_only_large_floats_are_stripped(size, dtype):
    model = _model("y = Add(x, w)", w=np.arange(size).astype(dtype))
    strip(model)
    assert is_weightless(model) == (size > 64 and np.issubdtype(dtype, np.floating))


def test_what_stays_does_not_need_the_file_it_came_from(tmp_path):
    model = _mlp()
    ir.save(model, tmp_path / "model.onnx", external_data="model.onnx.data", size_threshold_bytes=0)
    loaded = ir.load(tmp_path / "model.onnx")
    strip(loaded)
    (tmp_path / "model.onnx.data").unlink()
    np.testing.assert_array_equal(loaded.graph.initializers["mask"].const_value.numpy(), _arrays(model)["mask"])


def test_drawn_weights_are_lazy_and_depend_on_seed_name_and_shape():
    drawn = []
    for seed in (0, 0, 1):
        model = _mlp()
        strip(model)
        draw(model, seed=seed)
        assert not is_weightless(model)
        lazy = {n for n, value in model.graph.initializers.items() if isinstance(value.const_value, ir.LazyTensor)}
        assert lazy == {"scale", "shift", "w1", "b1", "table", "w2"}
        drawn.append(_arrays(model))
    first, again, other = drawn
    for name in lazy:
        np.testing.assert_array_equal(first[name], again[name])
        assert (first[name] != other[name]).mean() > 0.99
    assert (first["w1"] != first["w2"]).mean() > 0.99
    assert (first["scale"] - 1 != first["shift"]).mean() > 0.99


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_drawn_weights_fit_their_role(dtype):
    model = _mlp(dtype)
    strip(model)
    draw(model)
    arrays = _arrays(model)
    assert {array.dtype for name, array in arrays.items() if name not in {"shape", "indices"}} == {np.dtype(dtype)}
    for name, centre, bound in [
        ("scale", 1, 0.5), ("shift", 0, 0.5), ("b1", 0, 0.1), ("table", 0, 3**0.5), ("w1", 0, (3 / 96) ** 0.5),
    ]:  # fmt: skip
        off = arrays[name].astype(np.float64) - centre
        assert 0.95 * bound < np.abs(off).max() <= bound * 1.001, name
        assert abs(off.std() - bound / 3**0.5) < 0.1 * bound, name
        assert off.all(), name


def test_a_weight_that_a_rewrite_uses_in_a_new_way_is_drawn_all_the_same():
    model = _model("y = com.acme.Fused(x, w, b)", w=_normal(96, 96), b=_normal(96))
    for name, shape in (("w", [96, 96]), ("b", [96])):
        other = _model("z = MatMul(x, w) y = Add(z, b)", w=_normal(96, 96), b=_normal(96))
        strip(other)
        tensor = other.graph.initializers[name].const_value
        assert tuple(tensor.shape.numpy()) == tuple(shape)
        model.graph.initializers[name].const_value = tensor
    draw(model)
    arrays = _arrays(model)
    assert abs(arrays["w"].std() - 96**-0.5) < 0.01
    assert 0.09 < np.abs(arrays["b"]).max() <= 0.1


@pytest.mark.parametrize("ending", ["xz", "gz"])
def test_saved_and_loaded(tmp_path, ending):
    model = _mlp()
    strip(model)
    path = tmp_path / f"mlp.onnx.{ending}"
    save_stripped(model, path)
    loaded = load_stripped(path)
    assert is_weightless(loaded)
    written, read = ir.to_proto(model).graph, ir.to_proto(loaded).graph
    assert read.node == written.node
    assert read.initializer == written.initializer
    again = tmp_path / f"again.onnx.{ending}"
    save_stripped(model, again)
    assert again.read_bytes() == path.read_bytes()
    assert path.stat().st_size < 3000
    opener = {"xz": lzma, "gz": gzip}[ending]
    proto = onnx.ModelProto.FromString(opener.decompress(path.read_bytes()))
    assert proto.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL


def test_a_drawn_model_passes_the_checker():
    model = _mlp()
    strip(model)
    draw(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_other_endings_are_refused(tmp_path):
    path = tmp_path / "mlp.onnx.zip"
    text = f"{path} ends in '.zip'; models without weights are files that end in .xz or .gz"
    with pytest.raises(ValueError) as raised:
        save_stripped(_mlp(), path)
    assert str(raised.value) == text
    path.touch()
    with pytest.raises(ValueError) as raised:
        load_stripped(path)
    assert str(raised.value) == text


SECRET = ir.ExternalTensor("../secret", None, None, ir.DataType.FLOAT, shape=ir.Shape([96, 96]), name="w1")


@pytest.mark.parametrize("place", ["initializer", "tensor", "tensors"])
def test_data_in_other_files_is_refused(tmp_path, place):
    model = _mlp()
    if place == "initializer":
        model.graph.initializers["w1"].const_value = SECRET
    elif place == "tensor":
        model.graph[0].attributes.add(ir.AttrTensor("value", SECRET))
    else:
        model.graph[0].attributes.add(ir.AttrTensors("values", [SECRET]))
    path = tmp_path / "mlp.onnx.xz"
    save_stripped(model, path)
    with pytest.raises(BuildError) as raised:
        load_stripped(path)
    assert str(raised.value) == (
        f"{path} keeps 'w1' in another file (../secret). Give a file that save_stripped wrote, or load this one with "
        f"onnx_ir.load."
    )
