from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import graph_zoo
import numpy as np
import onnx
import onnx_ir as ir
import pytest
import regenerate_graphs
from weight_roles import weight_use

from pytest_sdperf import builtins
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.fusing.weightless import is_weightless

SCRIPT = Path(__file__).parent / "regenerate_graphs.py"
MODULE = re.compile(r"(down_blocks|up_blocks|layers)\.\d")
# Every graph is computed in tests/fusing/test_native_zoo.py, too.
RUN = {
    "torch-2.13/sd15-thin-text_encoder-dynamo-18-dynamic",
    "torch-2.13/sd15-thin-text_encoder-dynamo-18-static-float16",
    "torch-2.13/sd15-thin-unet-dynamo-18-dynamic",
    "torch-2.13/sd15-thin-vae_decoder-dynamo-23-static",
}


def missing(model):
    found = [v for graph in model.graphs() for v in graph.initializers.values()]
    return [value for value in found if isinstance(value.const_value, ir.ExternalTensor)]


def without_weights(model):
    """Return a proto whose weights are inputs: what the checker looks at, without drawing them."""
    proto = ir.to_proto(model)
    kept = [tensor for tensor in proto.graph.initializer if tensor.data_location != onnx.TensorProto.EXTERNAL]
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return proto


@pytest.mark.parametrize("name", graph_zoo.NAMES)
def test_every_graph_is_valid_and_its_weights_are_weights(name):
    model = graph_zoo.load_structure(name)
    assert is_weightless(model)
    onnx.checker.check_model(without_weights(model), full_check=True)
    opset, shapes = re.search(r"-(\d+)-(static|dynamic)", name).groups()
    assert model.opset_imports[""] == int(opset)
    assert all(value.shape.is_static() for value in model.graph.inputs) == (shapes == "static")
    paths = [node.metadata_props.get("pkg.torch.onnx.name_scopes", node.name or "") for node in model.graph.all_nodes()]
    assert sum(bool(MODULE.search(path)) for path in paths) > len(paths) / 2
    assert not any(".py" in path for path in paths)

    weights = missing(model)
    assert all(weight_use(value) for value in weights)
    large = {
        tensor.numpy().size - np.isin(tensor.numpy(), np.unique(tensor.numpy())[:2]).sum()
        for graph in model.graphs()
        for value in graph.initializers.values()
        if (tensor := value.const_value).dtype.is_floating_point() and tensor.size > 64 and value not in weights
    }
    assert large <= {0}, "only masks and constants stay"


def parameters(model, component):
    """Return the number of parameters of a component."""
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    module = catalog.models.get(model).module(component, weights=None)
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", graph_zoo.NAMES)
def test_the_weights_are_all_parameters_of_the_module(name):
    total = parameters(*re.search(r"/(.*-thin)-([a-z_0-9]+)-", name).groups())
    # The others are those of 64 elements and fewer.
    assert 0.98 * total < sum(value.const_value.size for value in missing(graph_zoo.load_structure(name))) <= total


def run(model, seed):
    """Run a model in onnxruntime on the CPU as it is, at two samples and small sizes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    proto = ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    inputs = {}
    for given in session.get_inputs():
        shape = [size if isinstance(size, int) else 2 if "batch" in size else 8 for size in given.shape]
        dtype = np.float16 if given.type == "tensor(float16)" else np.float32
        integral = given.type == "tensor(int64)"
        inputs[given.name] = rng.integers(1, 99, shape) if integral else rng.standard_normal(shape).astype(dtype)
    return session.run(None, inputs)


@pytest.mark.parametrize("name", sorted(RUN))
def test_graphs_run_with_drawn_weights(name):
    outputs = run(graph_zoo.load(name), 0)
    for array in outputs:
        assert np.isfinite(array).all()
        assert 1e-3 < np.abs(array).mean() < 1e3
        assert array.std() > 1e-3


@pytest.mark.parametrize("name", [name for name in sorted(RUN) if "unet" not in name])
def test_equal_seeds_give_equal_models(name):
    model = graph_zoo.load(name)
    assert not is_weightless(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    for array, again, other in zip(
        run(model, 0), run(graph_zoo.load(name), 0), run(graph_zoo.load(name, seed=1), 0), strict=True
    ):
        np.testing.assert_array_equal(array, again)
        assert (array != other).mean() > 0.9


def test_all_weights_differ():
    name = "torch-2.13/sd15-thin-vae_decoder-dynamo-18-static"
    names, drawn = [value.name for value in missing(graph_zoo.load_structure(name))], graph_zoo.load(name)
    starts = [drawn.graph.initializers[name].const_value.numpy().reshape(-1)[:65].tobytes() for name in names]
    assert len(set(starts)) == len(starts) > 30


def test_the_zoo_is_small():
    files = [path for path in graph_zoo.FOLDER.rglob("*") if path.is_file()]
    assert {path.name.partition(".")[2] for path in files} == {"onnx.xz"}
    assert sum(path.stat().st_size for path in files) < 6e6
    assert max(path.stat().st_size for path in files) < 250e3
    assert len(graph_zoo.NAMES) == len(files)


def test_unknown_graph():
    with pytest.raises(UnknownNameError) as raised:
        graph_zoo.load("torch-2.13/sd15-thin-unet-dynamo-18-statc")
    assert str(raised.value) == (
        "unknown graph 'torch-2.13/sd15-thin-unet-dynamo-18-statc'. Did you mean "
        f"'torch-2.13/sd15-thin-unet-dynamo-18-static'? Known: {', '.join(graph_zoo.NAMES)}."
    )


def test_the_script_knows_every_graph(capsys):
    assert regenerate_graphs.main(["--list"]) == 0
    known = {f"torch-2.13/{line.split()[-1]}" for line in capsys.readouterr().out.splitlines()}
    assert known == {name for name in graph_zoo.NAMES if name.startswith("torch-2.13/")}
    assert {re.sub("^torch-[^/]*", "torch-2.13", name) for name in graph_zoo.NAMES} == known


def test_the_script_refuses_unknown_names(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    with pytest.raises(SystemExit) as ended:
        regenerate_graphs.main(["sd15-thin-unet-dynamo-18-statc"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "regenerate_graphs.py: error: no such graph: sd15-thin-unet-dynamo-18-statc. Names are printed by --list"
    )


@pytest.mark.slow
def test_the_script_makes_a_graph(tmp_path):
    name = "sd15-thin-vae_encoder-dynamo-18-static"
    command = [sys.executable, SCRIPT, name, f"--into={tmp_path}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert re.fullmatch(rf"{name}: \d+ kB, \d+ s\ndone\n", answer.stdout)
    (made,) = tmp_path.glob(f"torch-*/{name}.onnx.xz")
    stored = graph_zoo.FOLDER / made.relative_to(tmp_path)
    if stored.exists():
        # Files of one version of torch differ only where another library of the exporter has changed.
        assert abs(made.stat().st_size / stored.stat().st_size - 1) < 0.2
