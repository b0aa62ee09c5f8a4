from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from tiny_model import make_catalog

from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.core.values import Workload, to_json
from pytest_sdperf.tasks import TaskContext, export, weights
from pytest_sdperf.tasks.sampling.phases import Silent

# The exporters of torch warn about their own future.
pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    weights.run(weights.WriteWeights("tiny", "unet"), _context(folder))
    return folder


@pytest.fixture(scope="module")
def static(folder):
    """Return the folder of a graph of fixed sizes, and what its export answered."""
    return folder / "static", _export(folder, folder / "static")


def _context(folder):
    return TaskContext(folder, make_catalog(), Silent(), lambda text: None)


def _export(folder, out, **changes):
    out.mkdir()
    workload = Workload(batch_size=2, height=128, width=192)
    request = export.ExportModule("tiny", "unet", "dynamo", 18, "static", workload, folder / weights.FILE)
    return export.run(dataclasses.replace(request, **changes), _context(out))


def _run(path, inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))[0]


def _torch(folder, inputs):
    import torch

    model = make_catalog().models.get("tiny")
    module = model.module("unet", weights=folder / weights.FILE).eval()
    with torch.no_grad():
        return module(*(torch.from_numpy(array) for array in inputs.values()))[0].numpy()


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("shapes", ["static", "dynamic"])
def test_exported_graph_computes_what_torch_computes(folder, static, tmp_path, exporter, shapes):
    if (exporter, shapes) == ("dynamo", "static"):
        out, answer = static
    else:
        out, answer = tmp_path / "out", _export(folder, tmp_path / "out", exporter=exporter, shapes=shapes)
    path = out / export.FILE
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert json.loads(json.dumps(to_json(answer)))["graph"]["counts"]["::LayerNormalization"] == 6
    assert answer.seconds > 0
    rng = np.random.default_rng(1)
    for batch, tokens in [(4, 16)] if shapes == "static" else [(4, 16), (2, 16), (1, 7)]:
        sample = rng.standard_normal((batch, tokens, 32)).astype(np.float32)
        inputs = {"sample": sample, "timestep": np.array(7, dtype=np.float32)}
        assert np.abs(_run(path, inputs) - _torch(folder, inputs)).max() < 1e-5


def test_graph_names_nothing_of_this_machine_but_keeps_module_paths(static):
    import onnx

    out, _ = static
    text = (out / export.FILE).read_bytes()
    assert b"/work" not in text
    assert b".py" not in text
    assert str(out).encode() not in text
    model = onnx.load(out / export.FILE, load_external_data=False)
    scopes = [prop.value for node in model.graph.node for prop in node.metadata_props]
    assert any("transformer_blocks.1.norm2" in scope for scope in scopes)


def test_export_is_reproducible(folder, static, tmp_path):
    out, first = static
    second = _export(folder, tmp_path / "again")
    assert first.graph.graph_hash == second.graph.graph_hash
    assert (out / "model.onnx.data").read_bytes() == (tmp_path / "again/model.onnx.data").read_bytes()


def test_unknown_exporter(folder, tmp_path):
    with pytest.raises(UnknownNameError) as raised:
        _export(folder, tmp_path / "out", exporter="dynano")
    assert str(raised.value) == "unknown exporter 'dynano'. Did you mean 'dynamo'? Known: dynamo, torchscript."
