from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sdperf.cases.options.profiles import Profile, Project, read_project
from pytest_sdperf.core.errors import OptionError, SdperfError


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
        "unknown key in [tool.sdperf] 'engin'. Did you mean 'engine'? Known: ab, ab-engine, "
        "ab-optimization, baselines, batch-size, build-timeout, cache-dir, cache-size, component, engine, "
        "engines, explain, exporter, fail-on, force-fp32-ops, fuser, gpu, html, images, inprocess, json, locate, "
        "max-processes, min-effect, model, onnx-dir, onnx-reference, opset, optimization, pipeline, "
        "plan, plant, pool, processes, prompts, reason, repeats, repro, repro-weights, resolution, resolutions, "
        "resume, scheduler, selftest, shapes, state-dir, steps, time-budget, tolerances, "
        "update-baselines, weights, worker-timeout."
    )


def test_a_file_that_is_not_toml_is_named_with_the_line(tmp_path):
    with pytest.raises(SdperfError) as caught:
        project(tmp_path, "[tool.sdperf\n")
    assert str(caught.value) == (
        f"{tmp_path / 'pyproject.toml'} is not valid TOML: Expected ']' at the end of a table declaration "
        "(at line 1, column 13). Correct that line."
    )


# ------------------------------------------------------------------------------------------------------- any content

KEYS = st.sampled_from(
    ["engine", "options", "python", "env", "sdperf", "engines", "tolerances", "pool", "x y", "", "="]
)
TEXTS = st.sampled_from(["toy", "toy-eager", "a=b", "", "~nobody-of-that-name/python", "\0", "../x", "all", "ö", "1"])
NUMBERS = st.sampled_from([0, -1, 10**400, 0.5, float("inf"), float("nan")])
TOML = st.recursive(
    TEXTS | NUMBERS | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PROFILE = st.fixed_dictionaries({"engine": TEXTS | TOML}, optional={"options": TOML, "python": TEXTS, "env": TOML})
ENGINES = st.fixed_dictionaries({"engines": st.dictionaries(KEYS | TEXTS, PROFILE, max_size=2)})
WHOLE = st.fixed_dictionaries({"tool": st.fixed_dictionaries({"sdperf": ENGINES | ENGINES | TOML}) | TOML})


def as_toml(value: Any) -> str:
    """Return a value as TOML writes it inside a line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {as_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value).replace("Infinity", "inf").replace("NaN", "nan")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WHOLE)
def test_a_project_of_any_content_is_read_or_refused(tmp_path, data):
    with contextlib.suppress(SdperfError):
        project(tmp_path, "".join(f"{name} = {as_toml(value)}\n" for name, value in data.items()))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROFILE)
def test_a_profile_of_any_content_runs_or_is_refused_at_the_door(pytester, sdperf, data):
    pytester.makepyfile(test_x="def test_x(build): pass")
    pytester.path.joinpath("pyproject.toml").write_text(
        f"[tool.sdperf.engines]\nmine = {as_toml(data)}\n", encoding="utf-8"
    )
    result = sdperf("--sdperf-engine=mine", "--collect-only")
    assert result.ret in (0, 4, 5)
    assert result.ret != 4 or result.errlines[0].startswith("ERROR: ")


def test_a_byte_order_mark_is_passed_over(tmp_path):
    (tmp_path / "pyproject.toml").write_bytes(b"\xef\xbb\xbf[tool.sdperf]\npool = 'a'\n")
    assert read_project(tmp_path).options == {"pool": "a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tool = 5\n", "[tool] is 5, which is not a table."),
        (
            f"[tool.sdperf]\npool = {'[' * 5000}{']' * 5000}\n",
            "{path} has too many lists or tables inside each other. Write them side by side.",
        ),
        (
            "[tool.sdperf.engines.a]\nengine = 'b'\npython = '~nobody-of-that-name/python'\n",
            (
                "[tool.sdperf.engines.a] python is '~nobody-of-that-name/python', and that user has no home here. "
                "Write the whole path."
            ),
        ),
        (
            "[tool.sdperf.engines.a]\nengine = 'b'\nenv = { 'A=B' = '1' }\n",
            ("[tool.sdperf.engines.a] env names a variable 'A=B', which no environment can hold. Rename it."),
        ),
        (
            '[tool.sdperf]\npool = "a\\u0000"\n',
            "[tool.sdperf] pool is 'a\\x00', and no option can hold the character of code 0. Take it out.",
        ),
    ],
)
def test_what_no_option_can_hold_is_refused(tmp_path, text, message):
    with pytest.raises(OptionError) as caught:
        project(tmp_path, text)
    assert str(caught.value) == message.format(path=tmp_path / "pyproject.toml")
