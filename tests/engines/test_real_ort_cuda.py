"""The CUDA provider itself, on machines that have it: `pytest tests/engines/test_real_ort_cuda.py`."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.engines.ort_cuda import OrtCudaEngine, provider_options
from pytest_sdperf.tasks.sampling.profiling import watched
from pytest_sdperf.testing import SMALL, check_engine
from pytest_sdperf.testing.probe_model import ProbeModel

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    OrtCudaEngine().missing() is not None or not torch.cuda.is_available(), reason="no CUDA GPU with onnxruntime-gpu"
)


def test_the_engine_keeps_its_contract(tmp_path):
    check_engine(OrtCudaEngine(), folder=tmp_path, device_kind="cuda")


# Every value of every option once: the provider refuses a name or a value that it does not know.
VALUES = [
    {name: value}
    for name, option in OrtCudaEngine.options.items()
    for value in option.choices
    if value != option.default
]


@pytest.mark.parametrize("given", [{}, *VALUES, {"cuda_graph": "on", "stream": "torch"}], ids=str)
def test_a_pipelines_calls_and_bound_runs_alternate(given, tmp_path):
    engine, model = OrtCudaEngine(), ProbeModel()
    options = engine.all_options(given)
    request = LoadRequest(
        build=model.build("onnx", tmp_path),
        model=model,
        component="unet",
        workload=SMALL,
        device_kind="cuda",
        device_index=0,
        options=options,
        work_dir=tmp_path,
    )
    results = []
    with engine.load(request) as runner:
        for seed in range(4):
            arrays = dict(model.example("unet", SMALL, seed=seed))
            tensors = {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}
            called = runner.call(tensors)["out_sample"]
            assert called.is_cuda
            runner.bind(arrays)
            runner.run()
            runner.synchronize()
            results.append((model.expected(arrays)["out_sample"], called, runner.fetch()["out_sample"]))
        assert runner.facts()["placement"].get("CPUExecutionProvider", 0) == 0
    for expected, called, fetched in results:
        assert abs(called.cpu().numpy() - expected).max() < 1e-3
        assert abs(fetched - expected).max() < 1e-3


IMAGE = np.ones((1, 512, 64, 64), np.float16)


def convolution(path):
    """Write one convolution of half precision with many channels, for which cuDNN 9.19 has kernels of either kind."""
    import onnx_ir as ir

    size = IMAGE.shape[1]
    weight = ir.Value(
        name="weight", const_value=ir.tensor(np.full((size, size, 3, 3), 0.01, np.float16), name="weight")
    )
    image = ir.Value(name="image", shape=ir.Shape(IMAGE.shape), type=ir.TensorType(ir.DataType.FLOAT16))
    node = ir.node("Conv", [image, weight], {"pads": [1, 1, 1, 1]})
    node.outputs[0].shape, node.outputs[0].type = image.shape, image.type
    graph = ir.Graph([image], node.outputs, nodes=[node], initializers=[weight], opset_imports={"": 18}, name="one")
    ir.save(ir.Model(graph, ir_version=10), path)
    return path


@pytest.mark.parametrize(("tf32", "without"), [("auto", False), ("on", False), ("off", True)])
def test_convolutions_of_half_precision_lose_tensor_cores_only_where_tf32_is_forbidden(tf32, without, tmp_path):
    import onnxruntime

    options = provider_options(OrtCudaEngine().all_options({"tf32": tf32}), 0, dtype="float16")
    session = onnxruntime.InferenceSession(
        convolution(tmp_path / "one.onnx"), providers=[("CUDAExecutionProvider", options)]
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("image", onnxruntime.OrtValue.ortvalue_from_numpy(IMAGE, "cuda", 0))
    binding.bind_output(session.get_outputs()[0].name, "cuda")
    session.run_with_iobinding(binding)
    seen = watched(lambda: session.run_with_iobinding(binding), device_kind="cuda", folder=tmp_path)
    assert bool(seen.without_tensor_cores) is without, seen
