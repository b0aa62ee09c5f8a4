"""The CUDA provider itself, on machines that have it: `pytest tests/engines/test_real_ort_cuda.py`."""

from __future__ import annotations

import pytest

from pytest_sdperf.contracts import LoadRequest
from pytest_sdperf.engines.ort_cuda import OrtCudaEngine
from pytest_sdperf.probe_model import ProbeModel
from pytest_sdperf.testing import SMALL, check_engine

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
