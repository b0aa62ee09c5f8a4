"""Which onnxruntime is installed, read from folders laid out as pip leaves them."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import shutil
import sys

import pytest
from extras import extra_command

from pytest_sdperf import builtins
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.engine_requests import parse_engines
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cli.doctor import doctor
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.core.settings import Selection, Settings
from pytest_sdperf.engines import _ort_install
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.engines.ort_cuda import OrtCudaEngine
from pytest_sdperf.plugin.run import Run

CPU, GPU = ("onnxruntime", "1.32.0"), ("onnxruntime-gpu", "1.31.1")
CPU_COMMAND, CUDA_COMMAND = extra_command("cpu"), extra_command("cuda")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site-packages folder in which onnxruntime is found, and not the real one."""
    record(tmp_path, "pytest-sdperf", "0.1.0", "pytest_sdperf/__init__.py")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(entry for entry in sys.path if "site-packages" not in entry)])
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnxruntime"]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return tmp_path


def install(site, *distributions, library=""):
    package = site / "onnxruntime"
    (package / "capi").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    if library:
        (package / "capi" / library).touch()
    for name, version in distributions:
        record(site, name, version, "onnxruntime/__init__.py")
    importlib.invalidate_caches()


def record(site, name, version, file):
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    needs = importlib.metadata.requires(name) or () if name == "pytest-sdperf" else ()
    lines = (
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {need}" for need in needs),
    )
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    (folder / "RECORD").write_text(f"{file},sha256=x,1\n")


def messages():
    return OrtCpuEngine().missing("cpu"), OrtCudaEngine().missing("cuda")


LINUX, WINDOWS = _ort_install.PROVIDER_LIBRARIES["CUDAExecutionProvider"]
NOT_FOR_CUDA = (
    "{} has no CUDAExecutionProvider, and a second build of onnxruntime beside it would overwrite its files; "
    "type: pip uninstall --yes {} && " + CUDA_COMMAND
)


@pytest.mark.parametrize("library", [LINUX, WINDOWS])
def test_a_build_for_gpus_serves_both_engines(site, library):
    install(site, GPU, library=library)
    assert messages() == (None, None)


def test_a_build_for_cpus_serves_the_cpu_only(site):
    install(site, CPU)
    assert messages() == (None, NOT_FOR_CUDA.format("onnxruntime 1.32.0", "onnxruntime"))


def test_a_build_for_another_vendor_is_named(site):
    install(site, ("onnxruntime-migraphx", "1.27.1"))
    assert messages()[1] == NOT_FOR_CUDA.format("onnxruntime-migraphx 1.27.1", "onnxruntime-migraphx")


def test_where_the_suite_is_not_installed_the_package_is_named_with_the_pip_of_that_interpreter(site):
    shutil.rmtree(site / "pytest_sdperf-0.1.0.dist-info")
    python = f"{sys.executable} -m pip"
    assert messages() == tuple(
        f"package 'onnxruntime' is not installed; type: {python} install {package}"
        for package in ("onnxruntime", "onnxruntime-gpu")
    )
    install(site, CPU)
    assert messages()[1] == NOT_FOR_CUDA.format("onnxruntime 1.32.0", "onnxruntime").replace(
        f"pip uninstall --yes onnxruntime && {CUDA_COMMAND}",
        f"{python} uninstall --yes onnxruntime && {python} install onnxruntime-gpu",
    )


def test_two_builds_in_one_folder_serve_nobody(site):
    install(site, GPU, CPU, library=LINUX)
    text = (
        "onnxruntime 1.32.0 and onnxruntime-gpu 1.31.1 are installed over each other in one folder, so that neither "
        "is whole; type: pip uninstall --yes onnxruntime onnxruntime-gpu && "
    )
    assert messages() == (text + CPU_COMMAND, text + CUDA_COMMAND)


def test_distributions_with_a_folder_of_their_own_are_no_second_build(site):
    install(site, CPU)
    record(site, "onnxruntime-extensions", "0.15.0", "onnxruntime_extensions/__init__.py")
    assert messages()[0] is None


def test_a_build_in_another_folder_is_not_mixed_with_the_one_that_is_imported(site, monkeypatch):
    install(site, CPU)
    other = site / "other"
    install(other, GPU, library=LINUX)
    monkeypatch.setattr(sys, "path", [str(other), *sys.path])
    assert messages() == (None, None)


def test_a_build_that_pip_does_not_know(site):
    install(site)
    assert messages() == (None, NOT_FOR_CUDA.format("the onnxruntime in this environment", "onnxruntime"))


@pytest.mark.parametrize("left", [False, True])
def test_nothing_or_an_empty_folder_that_an_uninstall_left(site, left):
    if left:
        (site / "onnxruntime" / "capi").mkdir(parents=True)
    importlib.invalidate_caches()
    text = "package 'onnxruntime' is not installed; type: "
    assert messages() == (text + CPU_COMMAND, text + CUDA_COMMAND)


@pytest.mark.parametrize("by_name", [True, False])
def test_asked_for_by_name_it_is_an_error_and_by_breadth_a_skip(site, by_name):
    install(site, CPU)
    reason = NOT_FOR_CUDA.format("onnxruntime 1.32.0", "onnxruntime")
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    text = "ort-cuda" if by_name else "all"
    asked = Selection(engines=parse_engines(text, catalog, {}, device_kind="cuda"), components=("unet",))
    run = Run(Settings(selection=asked), catalog, {}, "cuda")
    (choice,) = run.choose(Axes.ENGINE, Marks(engines=("ort-cuda",)))
    assert choice.skip == ("" if by_name else reason)
    if by_name:
        with pytest.raises(EngineMissingError) as caught:
            run.check_engines([choice.case])
        assert str(caught.value) == f"engine 'ort-cuda' was asked for, but {reason}"
    else:
        run.check_engines([choice.case])


def test_doctor_says_it_too(site):
    install(site, GPU, CPU, library=LINUX)
    lines = {line.partition(":")[0].strip(): line for line in doctor(argparse.Namespace())}
    assert lines["ort-cuda"] == f"  ort-cuda: {messages()[1]}"
    assert lines["ort-cpu"] == f"  ort-cpu: {messages()[0]}"


def test_the_onnxruntime_of_this_environment_is_one_build():
    build = _ort_install.find_build()
    assert build is not None
    assert len(build.owners) == 1
    assert build.has("CPUExecutionProvider")
