"""`--pipeline` at the door: what cannot be understood ends the run before its first test, with the whole reason."""

from __future__ import annotations

import pytest

SAID = "--sdperf-pipeline=mypipe:make"
BESIDE = [
    ("model=sd15", "is a model of its own"),
    ("engine=torch", "is its own engine"),
    ("optimization=fp16", "is optimized already, or not"),
    ("fuser=ort", "is not exported, so nothing is fused"),
    ("exporter=dynamo", "is not exported"),
    ("shapes=static", "is not exported"),
    ("weights=random", "has its weights"),
    ("onnx-dir=.", "holds no graphs"),
    ("onnx-reference=.", "holds no graphs"),
    ("scheduler=ddim", "has its scheduler"),
    ("force-fp32-ops=unet:Softmax", "is not built"),
    ("plan", "is known only once it is made"),
    ("resume", "may have changed its code since"),
    ("ab-engine=torch", "is its own engine"),
    ("ab-optimization=fp16", "is optimized already, or not"),
]


@pytest.fixture
def project(pytester):
    (pytester.path / "mypipe.py").write_text("raise SystemExit('nobody shall import this to collect tests')\n")
    pytester.makepyfile("def test_it(case): pass")
    return pytester.path


def refusal(result):
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    return line.removeprefix("ERROR: ")


@pytest.mark.parametrize(("other", "why"), BESIDE)
def test_nothing_else_says_what_is_tested(sdperf, project, other, why):
    assert refusal(sdperf(SAID, f"--sdperf-{other}")) == (
        f"--sdperf-{other} and {SAID} do not go together: a pipeline of your own is tested as it is, and {why}. Leave "
        f"--sdperf-{other.partition('=')[0]} or --sdperf-pipeline out."
    )


def test_it_is_tested_as_a_whole(sdperf, project):
    assert refusal(sdperf(SAID, "--sdperf-component=unet")) == (
        f"--sdperf-component=unet and {SAID} do not go together: a pipeline of your own is tested as a whole request. "
        "Leave --sdperf-component out, or type --sdperf-component=pipeline."
    )
    sdperf(SAID, "--sdperf-component=pipeline", "--collect-only").assert_outcomes()


@pytest.mark.parametrize("text", ["mypipe", "mypipe:", ":make", "mypipe.py:make()", "my-pipe:make", "mypipe:make:it"])
def test_a_text_without_module_and_function_is_refused(sdperf, project, text):
    assert refusal(sdperf(f"--sdperf-pipeline={text}")) == (
        f"--sdperf-pipeline={text} is no MODULE:FUNCTION. Name a function that returns a diffusers pipeline, and its "
        "module as Python imports it; type for example --sdperf-pipeline=mypipe:make for make() in mypipe.py."
    )


def test_a_module_that_is_not_there_is_refused_with_the_nearest(sdperf, project):
    assert refusal(sdperf("--sdperf-pipeline=mypip.sub:make")) == (
        f"--sdperf-pipeline=mypip.sub:make: there is no module 'mypip' in {project}, nor where Python looks for "
        "modules. Did you mean 'mypipe'? Put mypip.py there, or add its folder to pytest's option pythonpath."
    )


def test_collecting_imports_nothing_and_gives_one_case(sdperf, project):
    result = sdperf(SAID, "--collect-only", "-q")
    assert "mypipe" not in "".join(result.errlines)
    (line,) = [line for line in result.outlines if "::" in line]
    assert line.partition("::")[2] == "test_it[mypipe.make-pipeline-on-diffusers-at-as-is]"


def test_what_a_file_says_about_models_gives_way(sdperf, project, pytester):
    pytester.makeini("[pytest]\nsdperf_engine = ort-cpu\nsdperf_model = sd15\n")
    result = sdperf(SAID, "--collect-only", "-q")
    assert any("[mypipe.make-pipeline-on-diffusers-at-as-is]" in line for line in result.outlines)


def test_a_pipeline_in_a_file_does_not_go_with_an_engine_that_is_typed(sdperf, project, pytester):
    pytester.makeini("[pytest]\nsdperf_pipeline = mypipe:make\n")
    assert refusal(sdperf("--sdperf-engine=ort-cpu")) == (
        "--sdperf-engine=ort-cpu and sdperf_pipeline=mypipe:make do not go together: a pipeline of your own is tested "
        "as it is, and is its own engine. Leave --sdperf-engine or sdperf_pipeline out."
    )


def test_a_test_of_graphs_says_why_it_has_none(sdperf, project, pytester):
    pytester.makepyfile("def test_counts(build): pass")
    result = sdperf(SAID, "-rs")
    result.assert_outcomes(skipped=1)
    assert any(
        line.endswith("not applicable: a pipeline of your own is not exported, so there is no graph")
        for line in result.outlines
    )
