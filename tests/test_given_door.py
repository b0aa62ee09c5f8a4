"""`--onnx-dir` at the door: what cannot be understood ends the run before its first test, with the whole reason."""

from __future__ import annotations

import pytest
from given_folders import make_unet, write

LAYOUT = "Give a folder with COMPONENT/model.onnx, as `optimum-cli export onnx --model MODEL FOLDER` writes it."

REFUSED = [
    (
        ("--sdperf-onnx-dir=gone",),
        (
            "--sdperf-onnx-dir=gone: there is no folder {root}/gone. Give a folder with one COMPONENT/model.onnx per "
            "component, as `optimum-cli export onnx --model MODEL FOLDER` writes it."
        ),
    ),
    (
        ("--sdperf-onnx-reference=given",),
        (
            "--sdperf-onnx-reference=given is what an --onnx-dir is compared with, and none is given. Name the folder "
            "to test with --sdperf-onnx-dir=FOLDER, or leave --sdperf-onnx-reference out."
        ),
    ),
    (
        ("--sdperf-onnx-dir=.",),
        (
            "--sdperf-onnx-dir={root}: it holds given/unet/model.onnx, but no graph at the place where one is looked "
            f"for. {LAYOUT}"
        ),
    ),
    (
        ("--sdperf-onnx-dir=given", "--sdperf-component=text_encoder"),
        (
            "--sdperf-onnx-dir={root}/given has no text_encoder/model.onnx: there is no such folder. Components that "
            f"it holds: unet. {LAYOUT}"
        ),
    ),
    (
        ("--sdperf-onnx-dir=given", "--sdperf-engine=torch"),
        (
            "torch runs a torch module, and --sdperf-onnx-dir={root}/given holds graphs alone; name its weights with "
            "--sdperf-weights=FOLDER, or leave the engine out."
        ),
    ),
    (
        ("--sdperf-onnx-dir=given", "--sdperf-opset=20"),
        (
            "--sdperf-opset=20 is about an export, and --sdperf-onnx-dir gives graphs that were exported already. "
            "Leave one of the two out."
        ),
    ),
    (
        ("--sdperf-optimization=as-is",),
        (
            "--optimization=as-is: as-is takes a graph that was made elsewhere unchanged, and none is given. Name its "
            "folder with --onnx-dir=FOLDER, or name rungs: fp32, fp16, fmha, group-norm, all, ladder."
        ),
    ),
]


@pytest.fixture
def given(pytester):
    write(pytester.path / "given", "unet", make_unet())
    pytester.makepyfile("def test_graph(case): pass")
    return pytester.path / "given"


def refusal(result):
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    return line.removeprefix("ERROR: ")


@pytest.mark.parametrize(("flags", "message"), REFUSED)
def test_what_cannot_be_understood_ends_the_run(sdperf, given, flags, message):
    assert refusal(sdperf(*flags)) == message.format(root=given.parent)


def test_the_folder_may_be_named_in_the_ini_file(sdperf, given, pytester):
    pytester.makeini("[pytest]\nsdperf_onnx_dir = given\nsdperf_optimization = as-is\nsdperf_component = unet\n")
    pytester.makepyfile("def test_graph(case): assert (case.exporter, case.optimization) == ('given', 'as-is')")
    sdperf("--sdperf-engine=ort-cpu").assert_outcomes(passed=1)


def test_collecting_imports_neither_torch_nor_onnxruntime(sdperf, given, pytester):
    pytester.makeconftest(
        """
        import sys

        def pytest_sessionfinish():
            assert not {"torch", "onnxruntime"} & set(sys.modules)
        """
    )
    command = (
        "-p",
        "no:pytest_sdperf.builtins",
        "-p",
        "pytest_sdperf.plugin",
        "-p",
        "pytest_sdperf.short_fixtures",
        "-p",
        "door_toys",
        "--collect-only",
        "-q",
    )
    result = pytester.runpytest_subprocess(*command, "--sdperf-onnx-dir=given")
    assert result.ret == 0
    assert any("from-given" in line for line in result.outlines)
