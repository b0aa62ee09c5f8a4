from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from door_toys import ToyEngine, toy_catalog
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf import builtins
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.engine_requests import Profile, parse_engines
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.purposes import axes_of
from pytest_sdperf.cases.selector import Choice, Selector
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.settings import EngineRequest, Selection
from pytest_sdperf.core.values import Case


def selector(selection=None, *, engines="", device_kind="cpu", profiles=()):
    catalog = toy_catalog()
    known = {profile.name: profile for profile in profiles}
    if engines:
        selection = Selection(engines=parse_engines(engines, catalog, known, device_kind=device_kind))
    return Selector(selection or Selection(), catalog, known, device_kind)


def ids(choices):
    return [choice.id for choice in choices]


def skips(choices):
    return [choice.skip for choice in choices]


@pytest.mark.parametrize(
    ("fixtures", "axes"),
    [
        ({"sdperf_case"}, Axes.ENGINE),
        ({"sdperf_case", "sdperf_bench", "sdperf_runner"}, Axes.ENGINE),
        ({"sdperf_case", "sdperf_build", "sdperf_runner"}, Axes.ENGINE),
        ({"sdperf_case", "sdperf_build", "sdperf_model"}, Axes.BUILD),
        ({"sdperf_case", "sdperf_model"}, Axes.MODEL),
    ],
)
def test_the_fixtures_of_a_test_say_which_axes_it_has(fixtures, axes):
    assert axes_of(fixtures) is axes


def test_a_cpu_runs_the_thin_model_on_torch_and_onnxruntime():
    assert ids(selector().choose(Axes.ENGINE, Marks())) == [
        "sd15-thin-unet-on-torch-at-fp32",
        "sd15-thin-unet-on-ort-cpu-at-fp32",
        "sd15-thin-unet-on-ort-cpu-at-fp16",
        "sd15-thin-pipeline-on-torch-at-fp32",
        "sd15-thin-pipeline-on-ort-cpu-at-fp32",
        "sd15-thin-pipeline-on-ort-cpu-at-fp16",
    ]


@pytest.mark.parametrize(
    ("model", "components", "optimizations", "expected"),
    [
        ("sd15", ("unet", "pipeline", "vae_decoder"), (), ["bias-add", "bias-add", "bias-add"]),
        ("shapes", ("unet", "pipeline", "vae_decoder"), (), ["all-bias-split-gelu", "all-bias-split-gelu", "bias-add"]),
        ("sdxl", ("unet",), (), ["bias-add"]),
        ("shapes", ("unet",), ("bias-add",), ["bias-add"]),
    ],
)
def test_a_gpu_runs_the_last_optimization_without_what_it_has_no_kernels_for(
    model, components, optimizations, expected
):
    asked = Selection(
        models=(model,),
        components=components,
        optimizations=optimizations,
        engines=(EngineRequest("ort-cuda", "ort-cuda"),),
    )
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    chosen = Selector(asked, catalog, {}, "cuda").choose(Axes.ENGINE, Marks())
    assert sorted(choice.case.optimization for choice in chosen) == sorted(expected)


def test_a_test_says_which_shapes_its_graph_has():
    choices = selector(Selection(components=("unet",))).choose(Axes.ENGINE, Marks(shapes=("dynamic",)))
    assert ids(choices) == [
        "sd15-thin-unet-on-torch-at-fp32",
        "sd15-thin-unet-on-ort-cpu-at-fp32-dynamic",
        "sd15-thin-unet-on-ort-cpu-at-fp16-dynamic",
    ]


def test_who_names_other_shapes_than_a_test_is_about_has_it_skipped():
    asked = selector(Selection(shapes="static", engines=(EngineRequest("ort-cpu", "ort-cpu"),)))
    (choice,) = asked.choose(Axes.ENGINE, Marks(shapes=("dynamic",)))
    assert choice == Choice("nothing", None, "this test is for shapes dynamic, the command line names static")


def test_a_gpu_runs_the_full_model():
    choices = selector(device_kind="cuda").choose(Axes.ENGINE, Marks(components=("unet",)))
    assert ids(choices) == [
        "sd15-unet-on-torch-at-fp32",
        "sd15-unet-on-ort-cuda-at-fp32",
        "sd15-unet-on-ort-cuda-at-fp16",
    ]


def test_a_build_has_no_engine_but_names_its_fuser_and_exporter():
    choices = selector().choose(Axes.BUILD, Marks(components=("unet",), optimizations=("fp32", "fp16")))
    assert ids(choices) == [
        "sd15-thin-unet-at-fp32-by-native-from-dynamo",
        "sd15-thin-unet-at-fp32-by-ort-from-dynamo",
        "sd15-thin-unet-at-fp16-by-native-from-dynamo",
        "sd15-thin-unet-at-fp16-by-ort-from-dynamo",
    ]


def test_every_component_is_built_at_the_last_optimization():
    choices = selector(Selection(fusers=("ort",))).choose(Axes.BUILD, Marks(models=("sdxl",)))
    assert ids(choices) == [
        f"sdxl-{component}-at-group-norm-by-ort-from-dynamo" for component in ("text_encoder", "text_encoder_2", "unet")
    ]


def test_the_ladder_is_built_where_it_is_asked_for():
    asked = Selection(components=("unet",), fusers=("native",), optimizations=("fp32", "fp16", "fmha", "group-norm"))
    assert ids(selector(asked).choose(Axes.BUILD, Marks())) == [
        f"sd15-thin-unet-at-{optimization}-by-native-from-dynamo"
        for optimization in ("fp32", "fp16", "fmha", "group-norm")
    ]


OPTIMIZATIONS = ("fp32", "fp16", "fmha", "group-norm")


def test_of_a_ladder_whole_requests_are_run_at_the_first_and_the_last_optimization_that_the_engine_has():
    asked = Selection(optimizations=OPTIMIZATIONS, unnamed_optimizations=OPTIMIZATIONS)
    choices = selector(asked).choose(Axes.ENGINE, Marks())
    requests = [choice for choice in choices if choice.case.component == "pipeline"]
    assert ids(requests) == [
        "sd15-thin-pipeline-on-torch-at-fp32",
        "sd15-thin-pipeline-on-torch-at-fp16",
        "sd15-thin-pipeline-on-ort-cpu-at-fp32",
        "sd15-thin-pipeline-on-ort-cpu-at-group-norm",
    ]
    assert not any(skips(requests))
    components = [choice.case.optimization for choice in choices if choice.case.component == "unet"]
    assert components == [*OPTIMIZATIONS, *OPTIMIZATIONS]


@pytest.mark.parametrize(
    ("asked", "marks"),
    [
        (Selection(optimizations=OPTIMIZATIONS), Marks()),
        (
            Selection(
                components=("unet", "pipeline"), optimizations=OPTIMIZATIONS, unnamed_optimizations=OPTIMIZATIONS
            ),
            Marks(),
        ),
        (Selection(optimizations=OPTIMIZATIONS, unnamed_optimizations=OPTIMIZATIONS), Marks(components=("pipeline",))),
        (
            Selection(optimizations=OPTIMIZATIONS, unnamed_optimizations=OPTIMIZATIONS),
            Marks(optimizations=OPTIMIZATIONS),
        ),
    ],
)
def test_who_names_the_optimizations_or_the_pipeline_gets_every_optimization(asked, marks):
    choices = selector(asked).choose(Axes.ENGINE, marks)
    requests = [choice.case for choice in choices if choice.case.component == "pipeline"]
    assert [case.optimization for case in requests if case.engine == "ort-cpu"] == [*OPTIMIZATIONS]


def test_a_model_is_all_that_a_test_of_models_gets():
    assert ids(selector().choose(Axes.MODEL, Marks(models=("sd15", "sdxl")))) == ["sd15", "sdxl"]


def test_the_case_holds_what_was_asked_and_the_models_own_defaults():
    asked = Selection(components=("pipeline",), batch_sizes=(4,), width=256, height=192, scheduler="ddim", opset=20)
    cases = [choice.case for choice in selector(asked).choose(Axes.ENGINE, Marks(engines=("torch", "ort-cpu")))]
    torch = Case(
        *("sd15-thin", "pipeline", "torch", "fp32"), batch_size=4, width=256, height=192, steps=4, scheduler="ddim"
    )
    ort = replace(torch, engine="ort-cpu", fuser="native", exporter="dynamo", opset=20, shapes="static")
    assert cases == [torch, ort, replace(ort, optimization="fp16")]


def test_a_single_component_has_neither_steps_nor_scheduler():
    asked = Selection(components=("unet",), steps=8, scheduler="ddim")
    (choice,) = selector(asked).choose(Axes.ENGINE, Marks(engines=("torch",)))
    assert (choice.case.steps, choice.case.scheduler, choice.id) == (0, "", "sd15-thin-unet-on-torch-at-fp32")


def test_the_marker_sets_what_the_command_line_leaves_open():
    marks = Marks(models=("sdxl",), components=("unet",), engines=("ort-cpu:threads=2",), batch_sizes=(2,))
    assert ids(selector().choose(Axes.ENGINE, marks)) == [
        "sdxl-unet-on-ort-cpu-at-fp32-batch-2-with-threads-2",
        "sdxl-unet-on-ort-cpu-at-fp16-batch-2-with-threads-2",
    ]


def test_where_both_name_an_axis_only_what_they_share_is_left():
    asked = Selection(components=("unet",), optimizations=("fp16", "fp32"), batch_sizes=(1, 4))
    marks = Marks(engines=("torch",), optimizations=("fp32", "fmha"), batch_sizes=(4, 8))
    assert ids(selector(asked).choose(Axes.ENGINE, marks)) == ["sd15-thin-unet-on-torch-at-fp32-batch-4"]


@pytest.mark.parametrize(
    ("asked", "marks", "reason"),
    [
        (
            Selection(models=("sd15",)),
            Marks(models=("sdxl",)),
            "this test is for model sdxl, the command line names sd15",
        ),
        (
            Selection(components=("unet",)),
            Marks(components=("pipeline",)),
            "this test is for component pipeline, the command line names unet",
        ),
        (
            Selection(batch_sizes=(1, 2)),
            Marks(batch_sizes=(4,)),
            "this test is for batch size 4, the command line names 1, 2",
        ),
        (
            Selection(optimizations=("fmha",)),
            Marks(optimizations=("fp32", "fp16")),
            ("this test is for optimization fp32, fp16, the command line names fmha"),
        ),
        (
            Selection(engines=(EngineRequest("torch", "torch"),)),
            Marks(engines=("ort-cpu",)),
            "this test is for engine ort-cpu, the command line names torch",
        ),
    ],
)
def test_nothing_in_common_is_a_skip_that_says_so(asked, marks, reason):
    assert selector(asked).choose(Axes.ENGINE, marks) == (Choice("nothing", None, reason),)


def test_a_pipeline_is_not_one_build():
    (choice,) = selector(Selection(components=("pipeline",))).choose(Axes.BUILD, Marks())
    assert choice == Choice("nothing", None, "a pipeline has no graph of its own; name a component, such as unet")
    assert len(selector(Selection(components=("pipeline", "unet"))).choose(Axes.BUILD, Marks())) == 2


def test_a_profile_is_chosen_by_a_marker_for_its_engine():
    mine = Profile("mine", "ort-cpu", options={"threads": "2"})
    marks = Marks(engines=("ort-cpu",), components=("unet",), optimizations=("fp16",))
    choices = selector(engines="mine,torch", profiles=[mine]).choose(Axes.ENGINE, marks)
    assert ids(choices) == ["sd15-thin-unet-on-mine-at-fp16-with-threads-2"]


def test_a_optimization_that_an_engine_does_not_support_is_a_skip_with_its_reason():
    choices = selector(engines="torch,ort-cpu").choose(
        Axes.ENGINE, Marks(components=("unet",), optimizations=("fmha", "fp16+fmha"))
    )
    assert skips(choices) == ["not applicable: torch runs the torch module"] * 2 + ["", ""]


@pytest.mark.parametrize(
    ("selection", "refused"),
    [
        ("fp32", ""),
        ("fp16", ""),
        ("fmha", ""),
        ("fp32+fmha", ""),
        ("fp16+fmha", ""),
        ("nhwc-conv", "NhwcConv, which nhwc-conv"),
        ("group-norm", "NhwcConv, which nhwc-conv"),
        ("bias-add", "NhwcConv, which nhwc-conv"),
        ("fp16+group-norm", "GroupNorm and SkipGroupNorm, which group-norm"),
        ("fp16+fmha+bias-add", "BiasAdd, which bias-add"),
        ("all-fmha", "NhwcConv, which nhwc-conv"),
        ("all-nhwc-conv", "GroupNorm and SkipGroupNorm, which group-norm"),
    ],
)
def test_a_build_applies_to_an_engine_if_each_of_its_optimizations_does(selection, refused):
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    engines = parse_engines("ort-cpu,torch", catalog, {}, device_kind="cpu")
    asked = Selection(engines=engines, optimizations=(selection,))
    selector, marks = Selector(asked, catalog, {}, "cpu"), Marks(components=("unet",))
    on_ort, on_torch = skips(selector.choose(Axes.ENGINE, marks, timed=True))
    # What no kernel runs is lowered to primitives: its result can be checked, its speed says nothing.
    assert skips(selector.choose(Axes.ENGINE, marks)) == ["", on_torch]
    assert on_ort == (refused and f"not applicable: onnxruntime has no CPU kernel for {refused} needs")
    assert (on_torch == "") == (selection in ("fp32", "fp16"))


def test_a_component_that_a_model_lacks_is_a_skip():
    choices = selector(Selection(models=("sd15", "sdxl"), components=("text_encoder_2",))).choose(
        Axes.ENGINE, Marks(engines=("torch",))
    )
    assert skips(choices) == ["sd15 has no component 'text_encoder_2'; it has text_encoder, unet", ""]


@pytest.mark.parametrize(
    ("engines", "marked", "reason"),
    [
        (
            "",
            "absent",
            ("package 'a_module_that_nobody_has' is not installed; type: pip install a_module_that_nobody_has"),
        ),
        (
            "all",
            "absent",
            ("package 'a_module_that_nobody_has' is not installed; type: pip install a_module_that_nobody_has"),
        ),
        ("absent", "absent", ""),
        ("", "ort-cuda", "ort-cuda runs on cuda, not on cpu"),
    ],
)
def test_an_engine_that_nobody_demanded_is_skipped_where_it_cannot_run(engines, marked, reason):
    marks = Marks(engines=(marked,), components=("unet",), optimizations=("fp32",))
    assert skips(selector(engines=engines).choose(Axes.ENGINE, marks)) == [reason]


def test_the_interpreter_of_a_profile_answers_for_its_packages():
    other = Profile("other", "absent", python=Path(__file__))
    marks = Marks(engines=("other",), components=("unet",), optimizations=("fp32",))
    assert skips(selector(profiles=[other]).choose(Axes.ENGINE, marks)) == [""]


def test_a_machine_without_its_usual_engines_says_so():
    empty = Selector(Selection(), toy_catalog(), {}, "rocm")
    empty.catalog.engines._things.pop("torch")
    reason = "no engine of torch, ort-migraphx is registered"
    assert empty.choose(Axes.ENGINE, Marks()) == (Choice("nothing", None, reason),)


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (Marks(models=("sd16",)), "unknown model 'sd16'. Did you mean 'sd15'? Known: sd15, sd15-thin, sdxl."),
        (
            Marks(components=("une",)),
            ("unknown component 'une'. Did you mean 'unet'? Known: pipeline, text_encoder, text_encoder_2, unet."),
        ),
        (
            Marks(engines=("ort-cp",)),
            ("unknown engine 'ort-cp'. Did you mean 'ort-cpu'? Known: absent, all, ort-cpu, ort-cuda, torch."),
        ),
    ],
)
def test_an_unknown_name_in_a_marker_is_an_error(marks, message):
    with pytest.raises(SdperfError) as caught:
        selector().choose(Axes.ENGINE, marks)
    assert str(caught.value) == message


def some(values):
    return st.lists(st.sampled_from(values), max_size=3, unique=True).map(tuple)


@given(
    selection=st.builds(
        Selection,
        models=some(["sd15", "sd15-thin", "sdxl"]),
        components=some(["unet", "text_encoder", "text_encoder_2", "pipeline"]),
        optimizations=some(["fp32", "fp16", "fp16+fmha", "all-fmha"]),
        batch_sizes=some([1, 2, 4]),
        shapes=st.sampled_from(["static", "dynamic"]),
        steps=st.sampled_from([0, 4, 8]),
    ),
    engines=some(["torch", "ort-cpu", "ort-cpu:threads=1", "ort-cpu:threads=2", "all"]),
    axes=st.sampled_from(Axes),
)
def test_ids_are_unique_and_every_test_gets_at_least_one(selection, engines, axes):
    catalog = toy_catalog()
    catalog.add_engine(ToyEngine("another"))
    requests = parse_engines(",".join(engines), catalog, {}, device_kind="cpu") if engines else ()
    asked = Selection(**{**vars(selection), "engines": requests})
    choices = Selector(asked, catalog, {}, "cpu").choose(axes, Marks())
    assert choices
    assert len(set(ids(choices))) == len(choices)


def test_without_weights_a_build_says_so_and_onnxruntimes_optimizer_is_skipped():
    choices = selector(Selection(weights="none", optimizations=("fp16",))).choose(
        Axes.BUILD, Marks(components=("unet",))
    )
    assert [(choice.id, choice.skip) for choice in choices] == [
        ("sd15-thin-unet-at-fp16-by-native-from-dynamo-weights-none", ""),
        (
            "sd15-thin-unet-at-fp16-by-ort-from-dynamo-weights-none",
            "not applicable: the optimizer of onnxruntime reads weights, and here are none (--sdperf-weights=none)",
        ),
    ]
    assert {choice.case.weights for choice in choices} == {"none"}
