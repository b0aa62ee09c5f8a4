from __future__ import annotations

from pathlib import Path

import pytest

from pytest_sdperf.errors import SdperfError
from pytest_sdperf.options.profiles import Profile, Project, read_project


def project(tmp_path: Path, text: str) -> Project:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    return read_project(tmp_path)


def test_a_project_without_the_table_says_nothing(tmp_path):
    assert read_project(tmp_path) == Project()
    assert project(tmp_path, "[project]\nname = 'x'\n") == Project()


def test_options_become_the_text_of_the_command_line(tmp_path):
    text = "[tool.sdperf]\nengine = ['torch', 'ort-cpu']\nbatch_size = [1, 4]\nmin-effect = 0.05\ninprocess = true\n"
    assert project(tmp_path, text).options == {
        "engine": "torch,ort-cpu",
        "batch-size": "1,4",
        "min-effect": "0.05",
        "inprocess": "on",
    }


def test_a_profile_names_engine_options_interpreter_and_environment(tmp_path):
    text = """
        [tool.sdperf.engines.nightly]
        engine = "ort-cuda"
        options = { cuda_graph = true, threads = 4 }
        python = "venvs/nightly/bin/python"
        env = { ORT_LOG = "1" }
    """
    assert project(tmp_path, text).profiles == {
        "nightly": Profile(
            "nightly",
            "ort-cuda",
            options={"cuda_graph": "on", "threads": "4"},
            python=tmp_path / "venvs/nightly/bin/python",
            env={"ORT_LOG": "1"},
        )
    }


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "cuda_visible_devices"]
)
def test_a_profile_may_not_move_the_measurement_to_another_device(tmp_path, name):
    with pytest.raises(SdperfError) as caught:
        project(tmp_path, f"[tool.sdperf.engines.x]\nengine = 'torch'\nenv = {{ {name} = '1' }}\n")
    assert str(caught.value) == (
        f"[tool.sdperf.engines.x] env sets {name}, which would move the measurement to another device than the one "
        "that its result names. Remove it, and choose the device with --sdperf-gpu=DEVICE."
    )


PROFILE_KEYS = "engine, env, options, python"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[tool.sdperf.engines.x]\nengin = 'a'\n",
            (f"unknown key in [tool.sdperf.engines.x] 'engin'. Did you mean 'engine'? Known: {PROFILE_KEYS}."),
        ),
        (
            "[tool.sdperf.engines.x]\n",
            ('[tool.sdperf.engines.x] names no engine. Add a line such as: engine = "ort-cpu".'),
        ),
        ("[tool.sdperf.engines]\nx = 'torch'\n", "[tool.sdperf.engines.x] is 'torch', which is not a table."),
        ("[tool.sdperf]\nengines = 'torch'\n", "[tool.sdperf.engines] is 'torch', which is not a table."),
        ("[tool]\nsdperf = 1\n", "[tool.sdperf] is 1, which is not a table."),
        (
            "[tool.sdperf]\npool = 2026-01-01\n",
            (
                "[tool.sdperf] pool is datetime.date(2026, 1, 1). Allowed: a text, a number, true or false, "
                "or a list of these."
            ),
        ),
    ],
)
def test_a_bad_table_is_answered_with_what_is_allowed(tmp_path, text, message):
    with pytest.raises(SdperfError) as caught:
        project(tmp_path, text)
    assert str(caught.value) == message


def test_an_unknown_key_names_the_nearest_and_every_other(tmp_path):
    with pytest.raises(SdperfError) as caught:
        project(tmp_path, "[tool.sdperf]\nengin = 'torch'\n")
    assert str(caught.value) == (
        "unknown key in [tool.sdperf] 'engin'. Did you mean 'engine'? Known: ab, ab-build, ab-engine, "
        "ab-optimization, baselines, batch-size, build-timeout, cache-dir, cache-size, component, engine, "
        "engines, explain, exporter, fail-on, force-fp32-ops, fuser, gpu, images, inprocess, json, locate, "
        "max-processes, min-effect, missing-baseline, model, onnx-dir, onnx-reference, opset, optimization, pipeline, "
        "plan, plant, pool, processes, prompts, reason, repeats, repro, repro-weights, resolution, resolutions, "
        "resume, scheduler, selftest, shapes, state-dir, steps, time-budget, tolerances, unused-baselines, "
        "update-baselines, weights, worker-timeout."
    )


def test_a_file_that_is_not_toml_is_named_with_the_line(tmp_path):
    with pytest.raises(SdperfError) as caught:
        project(tmp_path, "[tool.sdperf\n")
    assert str(caught.value) == (
        f"{tmp_path / 'pyproject.toml'} is not valid TOML: Expected ']' at the end of a table declaration "
        "(at line 1, column 13). Correct that line."
    )
