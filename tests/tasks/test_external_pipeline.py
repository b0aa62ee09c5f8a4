"""What the user's own function returns: right pipelines agree with plain ones, and wrong ones do not."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import own_factories
import pytest
import torch
from overflowing_models import factor_of
from own_pipelines import write_pipeline
from sample_values import execution

from pytest_sdperf.checks.agreement.hints import remedies
from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.request import compare_request
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import NoReferenceError, OutOfMemoryError, PipelineError
from pytest_sdperf.core.files.arrays import digest_of, load_arrays
from pytest_sdperf.core.settings import PipelineFactory
from pytest_sdperf.core.values import Case, Workload
from pytest_sdperf.tasks import TaskContext, external_pipeline, plain_pipeline, slowed
from pytest_sdperf.tasks._execution import Execution, MeasureCase, OwnPipeline, Picture, Ran, RunCase
from pytest_sdperf.tasks._made_pipeline import made_pipeline
from pytest_sdperf.tasks._plain_twin import identity, plain_twin
from pytest_sdperf.tasks.sampling.phases import Silent
from pytest_sdperf.tasks.sampling.timing import TimingPlan

WORKLOAD = Workload(1, 64, 64, 2, "")
KNOWN = "Supported are StableDiffusionPipeline, StableDiffusionXLPipeline and classes derived from them."

# torch.Tensor.__array__ as the schedulers of diffusers call it.
NUMPY = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_pipeline(tmp_path_factory.mktemp("own") / "thin")


@pytest.fixture(autouse=True)
def own(folder, monkeypatch) -> None:
    monkeypatch.setenv("OWN_PIPELINE", str(folder))


@pytest.fixture
def context(tmp_path) -> TaskContext:
    return TaskContext(tmp_path, Catalog(), Silent(), lambda text: None)


def case_of(function: str, *, module: str = "own_factories", folder: str = "", **fields: Any) -> Execution:
    own = OwnPipeline(PipelineFactory(module, function, folder))
    given = {"workload": WORKLOAD, "picture": Picture("a photograph of a horse"), "own": own, **fields}
    return execution(component="pipeline", **given)


def settings_of(function: str) -> dict[str, str]:
    case = case_of(function)
    with made_pipeline(case) as pipeline:
        return external_pipeline._facts(pipeline, case)["settings"]


def described(function: str, context: TaskContext) -> external_pipeline.Description:
    return external_pipeline.describe(case_of(function), context)


def ran(function: str, context: TaskContext) -> Ran:
    return external_pipeline.run(RunCase(case_of(function)), context)


def references(function: str, context: TaskContext, *, exact: str) -> dict[str, Any]:
    case, plain = case_of(function), context.out_dir / "plain"
    own = external_pipeline.describe(case, context).dtype
    external_pipeline.write(external_pipeline.WriteFolder(case, plain), context)
    dtypes = {"exact": dict.fromkeys(own, exact), "own": own}
    pipeline = plain_pipeline.PlainPipeline(plain, watermark=False)
    made = plain_pipeline.run(plain_pipeline.RunPlain(case, pipeline, dtypes), context)
    return {name: load_arrays(Path(path)) for name, path in made.items()}


def agreements(
    function: str, context: TaskContext, wanted: dict[str, Any], dtype: str = "float32", **remedies: str
) -> Any:
    obtained = load_arrays(Path(ran(function, context).outputs))
    found = compare_request(obtained, wanted["exact"], plain=wanted["own"], dtype=dtype, by="torch", remedies=remedies)
    assert [one.level for one in found[:2]] == ["steps", "image"]
    return found


@pytest.fixture(scope="module")
def wanted(folder, tmp_path_factory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OWN_PIPELINE", str(folder))
        context = TaskContext(tmp_path_factory.mktemp("wanted"), Catalog(), Silent(), lambda text: None)
        return references("make", context, exact="float64")


def test_a_plain_pipeline_agrees_with_itself(wanted, context):
    found = agreements("make", context, wanted)
    assert all(one.passed and one.error == one.reference_error for one in found)
    assert len(found[0].steps) == 3
    assert wanted["own"]["unet_calls"] == 3  # PNDM makes one more than there are steps


CORRECTED = pytest.mark.filterwarnings("ignore:The configuration file of this scheduler:FutureWarning")


@CORRECTED
@NUMPY
@pytest.mark.parametrize("function", ["clipping", "corrected", "without_offset", "rescaled", "called_before"])
def test_a_reference_has_the_very_scheduler_of_a_pipeline(function, context):
    found = agreements(function, context, references(function, context, exact="float64"))
    assert all(one.passed and one.error == one.reference_error for one in found)


@CORRECTED
@NUMPY
def test_what_a_scheduler_does_is_part_of_the_identity_and_earlier_calls_are_not(context):
    functions = ("clipping", "corrected", "without_offset", "rescaled", "called_before")
    found = [described(function, context).identity for function in functions]
    assert len(set(found[:4])) == 4
    assert found[4] == found[0]


@pytest.mark.parametrize(
    "function",
    [
        "without_guidance",
        "with_another_scheduler",
        "with_wrong_attention_scale",
        "with_unscaled_attention",
        "with_a_norm_left_out",
    ],
)
def test_a_pipeline_that_silently_does_something_else_disagrees(function, wanted, context):
    steps, image, *_ = agreements(function, context, wanted)
    # PNDM makes one call more than DDIM, and then there is no step to compare with.
    other = function == "with_another_scheduler"
    assert steps.culprit == ("2 UNet calls were made, and 3 by the reference" if other else "step 1 of 3")
    assert steps.error > 10 * steps.limit
    assert image.error > 10 * image.limit


@NUMPY
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`-wrapped function:UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize("function", ["optimized", "compiled"])
def test_an_optimized_pipeline_agrees_in_its_own_precision(function, context):
    found = agreements(function, context, references(function, context, exact="float32"), "bfloat16")
    assert all(one.passed for one in found)
    settings = settings_of(function)
    compiled = "compiled " if function == "compiled" else ""
    assert settings["unet"] == f"bfloat16 {compiled}channels-last FusedAttnProcessor2_0"
    assert (settings["vae"], settings["scheduler"]) == ("bfloat16 AttnProcessor", "EulerDiscreteScheduler")


@NUMPY
@pytest.mark.slow
def test_sdxl_agrees_with_a_plain_one(tmp_path, monkeypatch, context):
    monkeypatch.setenv("OWN_PIPELINE", str(write_pipeline(tmp_path / "thin", "sdxl-thin")))
    found = agreements("make_xl", context, references("make_xl", context, exact="float64"))
    assert all(one.passed for one in found)


@NUMPY
@pytest.mark.filterwarnings("ignore:`upcast_vae` is deprecated:FutureWarning")
@pytest.mark.slow
def test_a_pipeline_that_lost_force_upcast_is_told_so(tmp_path, monkeypatch, context):
    monkeypatch.setenv("OWN_PIPELINE", str(write_pipeline(tmp_path / "loud", "sdxl-thin", factor_of)))
    healthy = agreements("half_xl", context, references("half_xl", context, exact="float32"), "float16")
    assert all(one.passed for one in healthy)

    function, folder = "half_xl_that_lost_its_upcast", tmp_path / "lost"
    folder.mkdir()
    there = TaskContext(folder, Catalog(), Silent(), lambda text: None)
    upcasts = described(function, there).upcasts_decoder
    advice = remedies(Case("own", "pipeline", "diffusers", "as-is", exporter="external"), upcasts=upcasts)
    steps, image = agreements(function, there, references(function, there, exact="float32"), "float16", **advice)
    assert steps.passed
    assert sentences(image) == (
        "The image cannot be judged: plain torch float16 is not finite on these weights and inputs, so nothing can be "
        "called right in this precision. The image is NaN: 12288 of 12288 values are not finite. The vae_decoder began "
        "it: 12288 of 12288 values of its output in call 1 are not finite. The vae_decoder of plain torch float16 puts "
        "out values that are not finite, too. The configuration of the VAE lacks force_upcast, with which the "
        "vae_decoder of a float16 pipeline runs in float32, as that of SDXL has to: set force_upcast, or run the "
        "pipeline in bfloat16."
    )


def test_a_pipeline_says_what_it_is(context):
    found = described("make", context)
    assert len(found.identity) == 16
    assert found == external_pipeline.Description(
        identity=found.identity,
        dtype={"text_encoder": "float32", "unet": "float32", "vae": "float32"},
        height=128,
        width=128,
        scheduler="pndm",
        watermark=False,
        upcasts_decoder=False,
        switched_on=[],
    )


@pytest.mark.parametrize(
    ("function", "told", "settings"),
    [
        ("with_tiling", ["tiling of the vae", "slicing of the vae"], ("", " tiling slicing")),
        ("with_free_u", ["FreeU of the unet"], (" FreeU", "")),
        ("with_both_switched_off_again", [], ("", "")),
    ],
)
def test_what_code_switches_on_is_told_and_is_another_manner_of_the_same_case(function, told, settings, context):
    found = described(function, context)
    assert found.switched_on == told
    assert found.identity == described("make", context).identity
    own = settings_of(function)
    assert [own["unet"], own["vae"]] == [f"float32 AttnProcessor2_0{more}" for more in settings]


def test_measuring_counts_calls_once_and_reports_the_runtime(context):
    plan = TimingPlan(min_iterations=1, max_iterations=1, timed_s=0.0, warmup_s=0.0)
    sample = external_pipeline.measure(MeasureCase(case_of("make"), plan), context).sample
    # Nobody promises equal bits of it; made once more on this CPU, it gives them.
    image = load_arrays(Path(ran("make", context).outputs))["image"]
    assert sample.facts["answer"] == {"digest": digest_of({"image": image}), "promised": False}
    assert sample.unet_calls == 3
    assert len(sample.iterations_s) == 1
    stages = sample.facts["stages_s"]
    assert {name: len(calls) for name, calls in stages.items()} == {
        "text_encoder": 2,
        "unet": 3,
        "vae_decoder": 1,
        "between": 1,
    }
    assert all(seconds > 0 for calls in stages.values() for seconds in calls)
    settings = dict(sample.facts["settings"])
    assert len(settings.pop("own_factories:make")) == 12
    assert settings == {
        "pipeline": "StableDiffusionPipeline",
        "scheduler": "PNDMScheduler",
        "text_encoder": "float32",
        "unet": "float32 AttnProcessor2_0",
        "vae": "float32 AttnProcessor2_0",
        "safety_checker": "none",
    }


def test_a_self_test_makes_each_request_longer_and_looks_at_nothing_else(context):
    plan = TimingPlan(min_iterations=1, max_iterations=1, timed_s=0.0, warmup_s=0.0)
    told = slowed.measure(slowed.MeasureSlowed(case_of("make"), plan, (0.5, 0.0)), context)
    assert "stages_s" not in told.sample.facts
    assert len(told.sample.iterations_s) == 1
    assert told.slowed[0].obtained >= 0.5


def test_code_is_not_part_of_the_identity_and_weights_are():
    def of(pipeline: Any) -> str:
        return identity(plain_twin(pipeline, "--sdperf-pipeline=a:b"), ["a horse"])

    pipeline = own_factories.make()
    plain = of(pipeline)
    pipeline.unet.to(memory_format=torch.channels_last)
    pipeline.fuse_qkv_projections()
    pipeline.unet = torch.compile(pipeline.unet, backend="eager")
    assert of(pipeline) == plain
    pipeline.vae.decoder.conv_out.bias.data[0] += 1
    assert of(pipeline) != plain
    pipeline.vae.decoder.conv_out.bias.data[0] -= 1
    settings = {**pipeline.scheduler.config, "beta_end": 0.02}
    pipeline.scheduler = type(pipeline.scheduler).from_config(settings)
    assert of(pipeline) != plain


@pytest.mark.parametrize("task", ["run", "measure", "write"])
def test_a_function_that_makes_another_pipeline_each_time_is_refused_with_the_likely_causes(task, context):
    """As tensors that nobody filled hold what their process finds in memory."""
    plan = TimingPlan(min_iterations=1, max_iterations=1, timed_s=0.0, warmup_s=0.0)

    def do(function, identity):
        case = case_of(function)
        case = dataclasses.replace(case, own=dataclasses.replace(case.own, identity=identity))
        {
            "run": lambda: external_pipeline.run(RunCase(case), context),
            "measure": lambda: external_pipeline.measure(MeasureCase(case, plan), context),
            "write": lambda: external_pipeline.write(
                external_pipeline.WriteFolder(case, context.out_dir / function), context
            ),
        }[task]()

    do("make", described("make", context).identity)
    known = described("drawn_anew", context).identity
    with pytest.raises(PipelineError) as caught:
        do("drawn_anew", known)
    before, now = re.search(r"had the hash (\w{16}) when the run began, and (\w{16}) now", str(caught.value)).groups()
    assert known == before != now
    assert str(caught.value) == (
        f"--sdperf-pipeline=own_factories:drawn_anew: drawn_anew() makes another pipeline in each process: its weights "
        f"or settings had the hash {before} when the run began, and {now} now, so nothing can be compared or kept. "
        f"Likely causes: tensors that are never filled (memory as it was found, as after offloading to disk), weights "
        f"drawn without a fixed seed, or files that changed. Load every weight, and seed what is drawn."
    )


REFUSED = [
    ("raises", "raises() raised ValueError: no weights here ({place}). It is called without arguments."),
    (
        "wants_a_gpu",
        (
            "wants_a_gpu() raised AssertionError: Torch not compiled with CUDA enabled ({place}). It is called without "
            "arguments. This run is on the CPU and shows its workers no GPU; type --sdperf-gpu=auto to run on one."
        ),
    ),
    (
        "wants_a_driver",
        (
            "wants_a_driver() raised RuntimeError: Found no NVIDIA driver on your system. Please check that you have "
            "an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx ({place}). It is "
            "called without arguments. This run is on the CPU and shows its workers no GPU; type --sdperf-gpu=auto to "
            "run on one."
        ),
    ),
    (
        "needs_an_argument",
        (
            "needs_an_argument() raised TypeError: needs_an_argument() missing 1 required positional argument: "
            "'device'. It is called without arguments."
        ),
    ),
    ("returns_a_dict", f"returns_a_dict() returned a dict, which is no diffusers pipeline. {KNOWN}"),
    (
        "image_to_image",
        (
            "image_to_image() returned a StableDiffusionImg2ImgPipeline, which is a pipeline that is not supported. "
            f"{KNOWN}"
        ),
    ),
    (
        "on_a_gpu",
        (
            "on_a_gpu() returned a pipeline on cuda:0, and this run is on cpu. To run it, add --sdperf-gpu=auto."
        ),
    ),
    (
        "with_a_part_of_its_own",
        (
            "the vae is a Sequential, which is no module of diffusers or transformers, so there are no weights that a "
            "plain one could be made of to compare with."
        ),
    ),
    (
        "with_an_adapter",
        (
            "the unet has mid_block.attentions.0.proj_in.lora_A.weight, which a plain UNet2DConditionModel has not, so "
            "it cannot be compared with one. Fuse adapters into the weights: pipeline.fuse_lora(), then "
            "pipeline.unload_lora_weights()."
        ),
    ),
    (
        "without_a_weight",
        (
            "the unet has no conv_in.bias of a plain UNet2DConditionModel, so it cannot be compared with one. Fuse "
            "adapters into the weights: pipeline.fuse_lora(), then pipeline.unload_lora_weights()."
        ),
    ),
    (
        "quantized",
        (
            "the unet holds quantized weights (conv_in.weight is int8), and nothing plain can be made of them to "
            "compare with. Supported: float32, float16, bfloat16."
        ),
    ),
    (
        "offloaded",
        (
            "the unet keeps conv_in.weight on the meta device, as sequential offloading does, where it cannot be read. "
            "Use pipeline.enable_model_cpu_offload(), or leave the whole pipeline on the device."
        ),
    ),
    (
        "with_a_scheduler_of_its_own",
        (
            "the scheduler is a ByHand, which is none of diffusers, nor derived from one. Use one of diffusers."
        ),
    ),
]  # fmt: skip


def place_of(function: str) -> str:
    """Return where a function of `own_factories` raises: in its last line."""
    lines = Path(own_factories.__file__).read_text().splitlines()
    start = lines.index(f"def {function}() -> Any:") if f"def {function}() -> Any:" in lines else 0
    return f"own_factories.py, line {start + 2}"


@pytest.mark.parametrize(("function", "message"), REFUSED, ids=[function for function, _ in REFUSED])
def test_what_cannot_be_tested_is_refused(function, message, context):
    with pytest.raises(PipelineError) as caught:
        described(function, context)
    place = place_of(function)
    assert str(caught.value) == f"--sdperf-pipeline=own_factories:{function}: {message.format(place=place)}"


def test_a_pipeline_on_another_device_is_refused(context):
    with pytest.raises(PipelineError) as caught:
        external_pipeline.describe(case_of("make", device_kind="cuda"), context)
    assert str(caught.value) == (
        "--sdperf-pipeline=own_factories:make: make() returned a pipeline on cpu, and this run is on cuda. To run it, "
        "let make() move it: pipeline.to('cuda')."
    )


def test_memory_that_runs_out_is_no_fault_of_the_function(context):
    with pytest.raises(OutOfMemoryError) as caught:
        described("takes_all_memory", context)
    assert str(caught.value) == (
        "--sdperf-pipeline=own_factories:takes_all_memory: OutOfMemoryError: CUDA out of memory. Tried to allocate "
        f"20.00 GiB ({place_of('takes_all_memory')})"
    )


@pytest.fixture
def module(tmp_path):
    """A module in a folder of its own, and how the function `name` of it is asked for."""
    (tmp_path / "own_module.py").write_text("PI = 3\n\ndef make(): pass\n\ndef other(): pass\n")
    (tmp_path / "own_broken_module.py").write_text("import a_module_that_nobody_has\n")
    return lambda name, module="own_module": case_of(name, module=module, folder=str(tmp_path))


def test_a_missing_function_is_named_with_the_nearest(module, context):
    with pytest.raises(PipelineError) as caught:
        external_pipeline.describe(module("mak"), context)
    assert str(caught.value) == (
        "--sdperf-pipeline=own_module:mak: own_module has no 'mak'. Did you mean 'make'? Functions that it has: make, "
        "other."
    )


def test_a_name_that_is_no_function_is_refused(module, context):
    with pytest.raises(PipelineError) as caught:
        external_pipeline.describe(module("PI"), context)
    assert str(caught.value) == (
        "--sdperf-pipeline=own_module:PI: PI of own_module is no function. Functions that it has: make, other."
    )


def test_a_module_that_cannot_be_imported_says_why(module, context):
    before = list(sys.path)
    with pytest.raises(PipelineError) as caught:
        external_pipeline.describe(module("make", "own_broken_module"), context)
    assert str(caught.value) == (
        "--sdperf-pipeline=own_broken_module:make: importing own_broken_module failed: ModuleNotFoundError: No module "
        "named 'a_module_that_nobody_has' (own_broken_module.py, line 1). Correct the module, or install what it needs "
        f"for {sys.executable}."
    )
    assert sys.path == before


def test_a_censored_image_is_not_compared(context):
    with pytest.raises(NoReferenceError) as caught:
        ran("censored", context)
    assert str(caught.value) == (
        "the pipeline's safety checker put a black image in place of the one that was made, so there is nothing to "
        "compare. Load the pipeline with safety_checker=None."
    )


@NUMPY
def test_noise_that_is_drawn_at_every_step_is_not_compared(context):
    with pytest.raises(NoReferenceError) as caught:
        references("drawing_noise", context, exact="float64")
    assert str(caught.value) == (
        "the scheduler EulerAncestralDiscreteScheduler draws noise at every step, which is another one in every "
        "dtype, so there is nothing to compare. Agreement needs one that draws none, such as "
        "EulerDiscreteScheduler."
    )
