"""`--onnx-dir` at the door: what cannot be understood ends the run before its first test, with the whole reason."""

from __future__ import annotations

import os
import pathlib

import forked_pytest
import pytest
from external_folders import make_unet, write

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
        ("--sdperf-onnx-dir=given", "-osdperf_opset=20"),
        (
            "--sdperf-onnx-dir=given and sdperf_opset=20 do not go together: these graphs were exported already. Leave "
            "one of them out."
        ),
    ),
    (
        ("--sdperf-optimization=as-is",),
        (
            "--optimization=as-is: as-is takes a graph that was made elsewhere unchanged, and none is given. Name its "
            "folder with --onnx-dir=FOLDER, or name optimizations: fp32, fp16, fmha, group-norm, all, ladder."
        ),
    ),
]


@pytest.fixture
def run_apart(pytester, monkeypatch):
    """Run pytest in a process of its own, in which neither torch nor onnxruntime is loaded."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parent), prepend=os.pathsep)
    names = ("no:pytest_sdperf.builtins", "pytest_sdperf.plugin", "pytest_sdperf.short_fixtures", "door_toys")
    loaded = [word for name in names for word in ("-p", name)]
    return lambda *flags: forked_pytest.run(pytester, *loaded, "--sdperf-onnx-dir=given", *flags)


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
    pytester.makepyfile("def test_graph(case): assert (case.exporter, case.optimization) == ('external', 'as-is')")
    sdperf("--sdperf-engine=ort-cpu").assert_outcomes(passed=1)


def test_collecting_imports_neither_torch_nor_onnxruntime(run_apart, given, pytester):
    pytester.makeconftest(
        """
        import sys

        def pytest_sessionfinish():
            assert not {"torch", "onnxruntime"} & set(sys.modules)
        """
    )
    result = run_apart("--collect-only", "-q")
    assert result.ret == 0
    assert any("from-external" in line for line in result.outlines)


TINY = """
    import sys

    from tiny_model import TinyModel

    def pytest_sdperf_register(catalog):
        catalog.add_model(TinyModel())

    def pytest_sessionfinish():
        assert not {"torch", "onnxruntime"} & set(sys.modules)
"""
TESTS = """
    import pytest

    pytestmark = pytest.mark.sdperf(components=["unet"])

    def test_counts(build, expected_counts): pass

    def test_outputs(runner, agree): pass

    def test_speed(runner, bench): pass
"""
OF_TINY = ("--sdperf-model=tiny", "--sdperf-engine=ort-cpu", "--sdperf-optimization=fp16")
EXPECTED = "Expected: sample float [2, 16, 32], timestep float32 [] and out_sample float [2, 16, 32]."


@pytest.fixture
def run_tiny(pytester, run_apart):
    """Run three tests of the model `tiny`, in a process that may load neither torch nor onnxruntime."""
    pytester.makeconftest(TINY)
    pytester.makepyfile(TESTS)
    return lambda *flags: run_apart(*OF_TINY, *flags)


def damaged(folder):
    (folder / "unet").mkdir(parents=True)
    (folder / "unet/model.onnx").write_text("version https://git-lfs.github.com/spec/v1")


def other_sizes(folder):
    write(folder, "unet", make_unet(sample=(4, 16, 32)))


def half(folder):
    write(folder, "unet", make_unet(dtype="float16"))


def no_unet(folder):
    write(folder, "denoiser", make_unet())


DAMAGED = (
    "{folder}/unet/model.onnx cannot be read as an ONNX model. Export or fetch it again; a file of Git LFS that was "
    "not fetched is a short text."
)
SIZES = (
    "{option}: {folder}/unet/model.onnx is no unet of tiny as it was asked for: axis 0 of sample is 4, not 2; axis 0 "
    "of out_sample is 4, not 2. It takes sample float32 [4, 16, 32], timestep float32 [] and returns out_sample "
    f"float32 [4, 16, 32]. {EXPECTED} Type --batch-size=2, or export it for these sizes or with dynamic axes."
)
NO_COMPONENT = (
    "--sdperf-onnx-dir={folder} has no component of tiny; it holds: denoiser. Components of tiny: unet. Give each "
    "sub-folder the name of the component that it holds, as in unet/model.onnx, or name the pipeline that it is with "
    "--sdperf-model=MODEL."
)
TOO_NARROW = (
    "--sdperf-onnx-dir: {folder}/unet/model.onnx has float16 weights, and a float32 build was asked for. Type "
    "--optimization=as-is to take it as it is or --optimization=fp16 (or a later one) to fuse it, or give a "
    "float32 export."
)


@pytest.mark.parametrize(
    ("make", "flags", "message"),
    [
        (no_unet, (), NO_COMPONENT),
        (damaged, (), DAMAGED),
        (other_sizes, (), SIZES),
        (half, ("--sdperf-optimization=fp32",), TOO_NARROW),
    ],
)
def test_a_folder_that_does_not_fit_is_refused_once_before_anything_is_made(run_tiny, pytester, make, flags, message):
    make(pytester.path / "given")
    result = run_tiny(*flags)
    folder = pytester.path / "given"
    assert refusal(result) == message.format(folder=folder, option="--sdperf-onnx-dir")
    result.assert_outcomes()
    assert not [line for line in result.outlines if str(folder) in line]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (damaged, DAMAGED),
        (other_sizes, SIZES),
        (
            no_unet,
            (
                "--sdperf-onnx-reference={folder} has no unet/model.onnx: there is no such folder. Components that it "
                f"holds: denoiser. {LAYOUT}"
            ),
        ),
        (
            half,
            (
                "--sdperf-onnx-reference: {folder}/unet/model.onnx has float16 weights and cannot be a reference. Give "
                "a float32 export with --sdperf-onnx-reference=FOLDER, or torch weights with --sdperf-weights=FOLDER."
            ),
        ),
    ],
)
def test_so_is_a_folder_that_it_is_compared_with(run_tiny, pytester, make, message):
    write(pytester.path / "given", "unet", make_unet())
    make(pytester.path / "exact")
    result = run_tiny("--sdperf-onnx-reference=exact")
    folder = pytester.path / "exact"
    assert refusal(result) == message.format(folder=folder, option="--sdperf-onnx-reference")
    # What compares nothing needs none.
    alone = run_tiny("--sdperf-onnx-reference=exact", "-k", "test_counts", "--collect-only")
    assert alone.ret == 0


def test_one_that_cannot_be_read_is_refused_by_a_run_that_only_collects(run_tiny, pytester):
    damaged(pytester.path / "given")
    assert refusal(run_tiny("--collect-only")) == DAMAGED.format(folder=pytester.path / "given")


def test_a_worker_of_xdist_refuses_it_once_as_well(sdperf, pytester):
    other_sizes(pytester.path / "given")
    pytester.makeconftest(TINY)
    pytester.makepyfile(TESTS)
    result = sdperf("--sdperf-onnx-dir=given", *OF_TINY, "-n2", plugins=["xdist.plugin"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.outlines if line.startswith("ERROR: ")]
    assert line == f"ERROR: {SIZES.format(folder=pytester.path / 'given', option='--sdperf-onnx-dir')}"


def test_whole_requests_that_were_named_need_every_component(sdperf, given):
    result = sdperf("--sdperf-onnx-dir=given", "--sdperf-component=pipeline", "--sdperf-engine=ort-cpu")
    assert refusal(result) == (
        f"--sdperf-component=pipeline asks for whole requests of sd15-thin, and --sdperf-onnx-dir={given} has no "
        "text_encoder; it holds: unet. Export what is missing into text_encoder/model.onnx, or type "
        "--sdperf-component=unet."
    )


def test_what_shows_only_later_is_told_at_the_first_test_and_named_at_the_others(sdperf, pytester):
    model = make_unet()
    model.graph.node[2].op_type = "NoSuchOperator"
    write(pytester.path / "given", "unet", model)
    pytester.makeconftest(TINY.partition("def pytest_sessionfinish")[0])
    pytester.makepyfile(TESTS)
    cache = f"--sdperf-cache-dir={pytester.path / 'cache'}"
    result = sdperf("--sdperf-onnx-dir=given", *OF_TINY, "-k", "counts", cache)
    assert result.ret == 10
    path = pytester.path / "given/unet/model.onnx"
    whole = [line for line in result.outlines if line.startswith(f"INVALID: {path} cannot be used: the ONNX checker")]
    same = [line for line in result.outlines if line.startswith("the same error as at ")]
    assert (len(whole), len(same)) == (1, 1)
    assert "::test_counts[tiny-unet" in same[0]
