"""What goes beyond float16 is found where it begins: the attention of a UNet, and the VAE of SDXL.

Nothing is faked: thin models with weights as loud as some released ones, computed by torch in float16.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import overflowing_models
import pytest
import torch

from pytest_sdperf.builds.execution.runner import PROMPT
from pytest_sdperf.checks.agreement.hints import remedies
from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.request import compare_request
from pytest_sdperf.checks.precision.drift import drift_of_engine
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.components import component_dtype, needed_components
from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.values import Build, Case, Workload
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.tasks import TaskContext, pipeline
from pytest_sdperf.tasks._execution import Execution, Part, Picture, RunCase
from pytest_sdperf.tasks.sampling.phases import Silent

# The factor on the weights is chosen for these, and for the prompt of the suite.
WORKLOAD = Workload(1, 64, 64, 4, "ddim")
ENGINES = ("torch-unfused", "torch")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    with found.owned_by(Registrar("overflowing_models", Path(__file__))):
        found.add_engine(TorchEngine())
        overflowing_models.pytest_sdperf_register(found)
    return found


@pytest.fixture(scope="module")
def request_of(catalog, tmp_path_factory):
    """Return what runs a whole request, each only once."""
    folder, known = tmp_path_factory.mktemp("loud"), {}
    catalog.models.get("loud").write_tokenizers(folder, weights=None)
    for component in needed_components(catalog.models.get("loud")):
        catalog.models.get("loud").draw_weights(component, folder / f"{component}.safetensors")

    def run(model: str, engine: str, dtype: str) -> dict[str, Any]:
        key = (model, engine, dtype)
        if key not in known:
            parts = {}
            for name in needed_components(catalog.models.get(model)):
                own = component_dtype(catalog.models.get(model), name, dtype)
                build = Build("", "module", folder / f"{name}.safetensors", own)
                parts[name] = Part(engine, {}, build)
            picture = Picture(PROMPT, tokenizers=folder, dtype=dtype)
            case = Execution(model, "pipeline", parts, WORKLOAD, "cpu", picture=picture)
            context = TaskContext(tmp_path_factory.mktemp("run"), catalog, Silent(), lambda text: None)
            known[key] = load_arrays(Path(pipeline.run(RunCase(case), context).outputs))
        return known[key]

    return run


@pytest.fixture
def compared(request_of, catalog):
    def compare(model: str, engine: str) -> Any:
        upcasts = catalog.models.get(model).config("vae_decoder")["force_upcast"]
        # torch's own attention takes no notice of upcast_attention: its results serve both UNets.
        plain = model if not upcasts else "loud"
        return compare_request(
            request_of(model, engine, "float16"),
            request_of(plain, "torch", "float32"),
            plain=request_of(plain, "torch", "float16"),
            dtype="float16",
            by="torch",
            remedies=remedies(Case(model, "pipeline", engine, "fp16"), upcasts=upcasts),
        )

    return compare


def failing(agreements: Any) -> dict[str, str]:
    return {one.level: sentences(one) for one in agreements if not one.passed}


def test_where_attention_and_vae_are_upcast_everything_is_right(compared):
    assert failing(compared("loud", "torch-unfused")) == {}


def test_attention_beyond_float16_is_caught_at_the_step_where_it_begins(compared):
    found = compared("loud-attention", "torch-unfused")
    assert [(one.level, one.name) for one in found] == [("steps", "overflow"), ("image", "NaN")]
    assert found[0].culprit == "step 3 of 4"
    text = failing(found)["steps"]
    assert text.startswith("From step 3 of 4 on the latents are not finite. The error was ")
    assert " The unet began it: " in text
    assert "of 512 values of its output at step 3 of 4 are not finite; until then none exceeded 3." in text
    assert "So something inside it went beyond 65504, where float16 ends. Products of query and key " in text
    assert failing(found)["image"] == "The image is NaN: 12288 of 12288 values are not finite."


def test_half_precision_drifts_as_far_as_torch_where_attention_is_upcast(request_of):
    pairs = [(request_of("loud", name, "float16"), request_of("loud", name, "float32")) for name in ENGINES]
    assert drift_of_engine(*pairs[0], plain=pairs[1], dtype="float16").passed
    half = request_of("loud-attention", "torch-unfused", "float16")
    found = drift_of_engine(half, pairs[0][1], plain=pairs[1], dtype="float16")
    assert (found.passed, found.name, found.culprit) == (False, "overflow", "step 3 of 4")
    assert sentences(found).startswith("In float16 the latents are not finite from step 3 of 4 on. The drift was ")


@pytest.mark.slow
def test_attention_that_keeps_its_products_in_float32_is_right_with_the_same_weights(compared):
    assert failing(compared("loud-attention", "torch")) == {}


def test_a_vae_that_lost_its_upcast_on_the_way_is_told_apart_from_the_steps(compared):
    found = failing(compared("loud", "torch-half"))
    assert list(found) == ["image"]
    assert found["image"].startswith(
        "The image is NaN: 12288 of 12288 values are not finite. The vae_decoder began it: 12288 of 12288 values of "
        "its output in call 1 are not finite. In torch float32 none exceeds "
    )
    assert found["image"].endswith(
        "So something inside it went beyond 65504, where float16 ends. The configuration of the VAE says force_upcast, "
        "with which the vae_decoder of a float16 pipeline runs in float32: here something made it run in float16. "
        "Leave it in float32, or run the pipeline in bfloat16."
    )


@pytest.mark.slow
def test_a_pipeline_whose_configuration_lost_force_upcast_is_told_so(compared):
    found = failing(compared("loud-vae", "torch"))
    assert list(found) == ["image"]
    assert found["image"].startswith("The image cannot be judged: plain torch float16 is not finite ")
    assert found["image"].endswith(
        "The vae_decoder of plain torch float16 puts out values that are not finite, too. The configuration of the VAE "
        "lacks force_upcast, with which the vae_decoder of a float16 pipeline runs in float32, as that of SDXL has to: "
        "set force_upcast, or run the pipeline in bfloat16."
    )
