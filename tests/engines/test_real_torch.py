"""Kernels of attention, on machines with an NVIDIA GPU: `pytest tests/engines/test_real_torch.py`."""

from __future__ import annotations

import pytest

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.errors import UnsupportedOptionError
from pytest_sdperf.core.values import Build
from pytest_sdperf.engines.torch_compile import TorchCompileEngine
from pytest_sdperf.engines.torch_eager import KERNELS, TorchEngine
from pytest_sdperf.models import sd15
from pytest_sdperf.testing import SMALL, check_engine

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]
MODELS = {model.name: model for model in sd15.MODELS}


def request_for(engine, tmp_path, *, model="sd15-thin", component="unet", **options):
    path = tmp_path / component
    if not path.exists():
        MODELS[model].draw_weights(component, path)
    return LoadRequest(
        build=Build("k", "module", path, "float16"),
        model=MODELS[model],
        component=component,
        workload=SMALL,
        device_kind="cuda",
        device_index=0,
        options=engine.all_options(options),
        work_dir=tmp_path,
    )


def output(runner, model="sd15-thin", component="unet"):
    runner.bind(MODELS[model].example(component, SMALL))
    runner.run()
    runner.synchronize()
    return next(iter(runner.fetch().values())).astype("float64")


@pytest.mark.parametrize("engine", [TorchEngine(), TorchCompileEngine()], ids=lambda engine: engine.name)
def test_the_engine_keeps_its_contract(engine, tmp_path):
    check_engine(engine, folder=tmp_path, device_kind="cuda")


@pytest.mark.parametrize("attention", KERNELS)
def test_a_kernel_computes_what_torchs_own_choice_computes(attention, tmp_path):
    engine = TorchEngine()
    with engine.load(request_for(engine, tmp_path)) as runner:
        expected = output(runner)
    with engine.load(request_for(engine, tmp_path, attention=attention)) as runner:
        try:
            obtained = output(runner)
        except UnsupportedOptionError as error:
            # cuDNN has no kernel for the narrow heads of a thin model on every card, and says no more than that.
            if attention != "cudnn":
                raise
            pytest.skip(str(error))
    assert abs(obtained - expected).max() < 1e-2 * abs(expected).max()


def test_flash_attention_is_refused_for_the_autoencoder_with_torchs_reason(tmp_path):
    engine = TorchEngine()
    request = request_for(engine, tmp_path, model="sd15", component="vae_decoder", attention="flash")
    with engine.load(request) as runner, pytest.raises(UnsupportedOptionError) as caught:
        output(runner, "sd15", "vae_decoder")
    assert str(caught.value).startswith(
        "attention=flash cannot serve the vae_decoder of sd15 in float16 on an NVIDIA GPU: Flash attention requires"
    )


def test_a_replayed_cuda_graph_is_recognised_and_gives_the_answers_of_its_inputs(tmp_path):
    engine = TorchCompileEngine()
    with engine.load(request_for(engine, tmp_path, mode="reduce-overhead")) as runner:
        first = output(runner)
        assert runner.facts()["cuda_graph"]["replayed"] is False
        for _ in range(3):
            again = output(runner)
        facts = runner.facts()
        runner.bind(MODELS["sd15-thin"].example("unet", SMALL, seed=1))
        runner.run()
        runner.synchronize()
        other = next(iter(runner.fetch().values()))
    assert facts["cuda_graph"] == {"requested": True, "replayed": True, "changed_inputs": None}
    assert (facts["compile"]["cudagraph_skips"], facts["compile"]["graph_breaks"]) == (0, 0)
    assert abs(again - first).max() < 1e-2 * abs(first).max() < abs(other - first).max()
