from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest
from door_toys import toy_catalog

from pytest_sdperf.cases.options.conflicts import compatible
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.reading import SettingsParser
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.settings import EngineRequest, Selection, Settings


def read(answers=None, *, started_in=Path("/started"), root=Path("/root")):
    said = {
        name: answer if isinstance(answer, OptionValue) else OptionValue(answer, f"--{name}")
        for name, answer in (answers or {}).items()
    }
    return SettingsParser(
        compatible(said), toy_catalog(), {}, device_kind="cpu", started_in=started_in, root=root
    ).settings()


def test_nothing_said_is_the_default_of_everything():
    assert read() == Settings(
        baselines=Path("/started/baselines"),
        cache_dir=platformdirs.user_cache_path("pytest-sdperf"),
        state_dir=platformdirs.user_state_path("pytest-sdperf"),
    )


def test_everything_said_is_in_the_settings(tmp_path):
    answers = {
        "gpu": "cpu",
        "engine": "torch",
        "model": "sd15,sdxl",
        "component": "unet,pipeline",
        "optimization": "ladder",
        "batch-size": "1,4",
        "fuser": "ort",
        "exporter": "torchscript",
        "opset": "20",
        "shapes": "dynamic",
        "weights": str(tmp_path),
        "resolution": "768x512",
        "steps": "8",
        "scheduler": "euler",
        "prompts": "24",
        "processes": "5",
        "max-processes": "7",
        "worker-timeout": "2m",
        "build-timeout": "2h",
        "inprocess": "true",
        "fail-on": "inconclusive,new",
        "min-effect": "5%",
        "update-baselines": "true",
        "reason": "a new compiler",
        "pool": "rack-3",
        "baselines": "b",
        "cache-dir": "/c",
        "cache-size": "1GB",
        "state-dir": "s",
        "json": "out.json",
        "html": "out.html",
        "explain": "why.json",
        "plan": "true",
        "time-budget": "20m",
        "resume": "true",
    }
    assert read(answers) == Settings(
        gpu="cpu",
        selection=Selection(
            models=("sd15", "sdxl"),
            components=("unet", "pipeline"),
            engines=(EngineRequest("torch", "torch"),),
            optimizations=("fp32", "fp16", "fmha", "group-norm"),
            unnamed_optimizations=("fp32", "fp16", "fmha", "group-norm"),
            batch_sizes=(1, 4),
            fusers=("ort",),
            exporter="torchscript",
            opset=20,
            shapes="dynamic",
            weights=str(tmp_path.resolve()),
            height=512,
            width=768,
            steps=8,
            scheduler="euler",
        ),
        baselines=Path("/started/b"),
        cache_dir=Path("/c"),
        cache_size_bytes=10**9,
        state_dir=Path("/started/s"),
        prompts=24,
        processes=5,
        max_processes=7,
        worker_timeout_s=120.0,
        build_timeout_s=7200.0,
        update_baselines=True,
        reason="a new compiler",
        fail_on=frozenset({"inconclusive", "new"}),
        min_effect=0.05,
        pool="rack-3",
        in_process=True,
        json_file=Path("/started/out.json"),
        html_file=Path("/started/out.html"),
        explain_file=Path("/started/why.json"),
        plan=True,
        time_budget_s=1200.0,
        resume=True,
    )


def test_a_path_in_a_file_begins_at_the_projects_root():
    assert read({"baselines": OptionValue("b", "sdperf_baselines")}).baselines == Path("/root/b")


def test_a_flag_that_asks_for_more_processes_is_stronger_than_the_most_of_a_file():
    few = OptionValue("2", "[tool.sdperf] max-processes")
    settings = read({"processes": "5", "max-processes": few})
    assert (settings.processes, settings.most_processes) == (5, 5)
    assert read({"max-processes": OptionValue("9", "[tool.sdperf] max-processes")}).most_processes == 9
    assert (read({"processes": "2"}).most_processes, read().most_processes) == (8, 12)


def test_a_hub_id_stays_what_it_is():
    assert read({"weights": "org/name"}).selection.weights == "org/name"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("model", "sd16", "unknown model 'sd16'. Did you mean 'sd15'? Known: sd15, sd15-thin, sdxl."),
        ("component", "vae", "unknown component 'vae'. Known: pipeline, text_encoder, text_encoder_2, unet."),
        (
            "engine",
            "torhc",
            ("unknown engine 'torhc'. Did you mean 'torch'? Known: absent, all, ort-cpu, ort-cuda, torch."),
        ),
        ("fuser", "orrt", "unknown fuser 'orrt'. Did you mean 'ort'? Known: native, ort."),
        ("exporter", "onnx", "unknown exporter 'onnx'. Known: dynamo, torchscript."),
        ("shapes", "fixed", "unknown kind of shapes 'fixed'. Known: dynamic, static."),
        ("scheduler", "ddmi", "unknown scheduler 'ddmi'. Did you mean 'ddim'? Known: ddim, euler, pndm, unipc."),
        ("fail-on", "held", "unknown verdict of fail-on 'held'. Known: inconclusive, new, none, not-measured, unused."),
        (
            "batch-size",
            "0",
            (
                "--batch-size=0: '0' is not a batch size. Allowed: whole numbers from 1; type for example "
                "--batch-size=1."
            ),
        ),
        (
            "prompts",
            "101",
            (
                "--prompts=101: the fixed list has 100 prompts. Allowed: whole numbers from 1 to 100; type for example "
                "--prompts=100."
            ),
        ),
        (
            "prompts",
            "none",
            (
                "--prompts=none: 'none' is not a number of prompts. Allowed: whole numbers from 1; type for example "
                "--prompts=1."
            ),
        ),
        (
            "weights",
            "./gone",
            (
                "--weights=./gone: there is no folder /started/gone. Allowed: random, none, a diffusers folder, or "
                "OWNER/NAME on the Hugging Face hub; type for example --weights=random."
            ),
        ),
        (
            "weights",
            "sd15",
            (
                "--weights=sd15: there is no folder /started/sd15. Allowed: random, none, a diffusers folder, or "
                "OWNER/NAME on the Hugging Face hub; type for example --weights=random."
            ),
        ),
        *(
            (
                "time-budget",
                text,
                (
                    f"--time-budget={text} is not a time. Allowed: a number above 0 with s, m or h, seconds without; "
                    "type for example --time-budget=15m."
                ),
            )
            for text in ("0", "0m", "-5m", "soon", "20 minutes", "")
        ),
        ("gpu", " ", "--gpu=  is empty. Give it a value, or leave it out."),
    ],
)
def test_a_bad_value_is_answered_with_what_is_allowed(name, text, message):
    with pytest.raises(SdperfError) as caught:
        read({name: text})
    assert str(caught.value) == message


def test_a_component_must_belong_to_one_of_the_models_named():
    with pytest.raises(SdperfError) as caught:
        read({"model": "sd15", "component": "text_encoder_2"})
    assert str(caught.value) == (
        "unknown component 'text_encoder_2'. Did you mean 'text_encoder'? Known: pipeline, text_encoder, unet."
    )


def test_no_weights_are_a_choice():
    assert read({"weights": "none", "fuser": "native", "exporter": "dynamo"}).selection.weights == "none"


@pytest.mark.parametrize(
    ("other", "text", "message"),
    [
        (
            "fuser",
            "native,ort",
            (
                "--weights=none and --fuser=native,ort do not go together: the optimizer of onnxruntime reads weights. "
                "Leave one of them out."
            ),
        ),
        (
            "exporter",
            "torchscript",
            (
                "--weights=none and --exporter=torchscript do not go together: the tracer executes the module. Leave "
                "one of them out."
            ),
        ),
        (
            "onnx-dir",
            "exported",
            (
                "--weights=none and --onnx-dir=exported do not go together: an external graph has its weights. "
                "Leave one of them out."
            ),
        ),
    ],
)
def test_what_needs_weights_does_not_go_without(other, text, message):
    with pytest.raises(SdperfError) as caught:
        read({"weights": "none", other: text})
    assert str(caught.value) == message
