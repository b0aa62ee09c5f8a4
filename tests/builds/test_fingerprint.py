from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path

import pytest
from overflowing_models import Loud

from pytest_sdperf.builds.fingerprint import library_versions, modules_of, source_hash
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.tasks import alter


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "acme_pkg"
    folder.mkdir()
    for name, text in {
        "__init__": "",
        "top": "import json\nfrom acme_pkg import middle\n",
        "middle": "def f():\n    from acme_pkg.low import thing\n    return thing\n",
        "low": "thing = 1\n",
        "apart": "thing = 1\n",
    }.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.startswith("acme_pkg")]:
        del sys.modules[name]


@pytest.mark.parametrize(("module", "changes"), [("top", True), ("middle", True), ("low", True), ("apart", False)])
def test_hash_follows_imports_inside_the_package(package, module, changes):
    before = source_hash("acme_pkg.top")
    with (package / f"{module}.py").open("a") as file:
        file.write("# changed\n")
    assert (source_hash("acme_pkg.top") != before) is changes


def test_nothing_is_imported_to_be_found(package):
    (package / "middle.py").write_text("from acme_pkg.low import thing\nraise MemoryError\n")
    before = source_hash("acme_pkg.top")
    with (package / "low.py").open("a") as file:
        file.write("# changed\n")
    assert source_hash("acme_pkg.top") != before
    assert not [name for name in sys.modules if name.startswith("acme_pkg.")]


@pytest.fixture
def derived(package, tmp_path):
    """A class of one package that derives from one of another, and uses this project."""
    other = tmp_path / "other_pkg"
    (other / "deep").mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "mine": "from acme_pkg.base import Base\nfrom .deep import near\nclass Mine(Base): pass\n",
        "deep/__init__": "from ..beside import thing\n",
        "deep/near": "import pytest_sdperf.models._components\n",
        "beside": "thing = 1\n",
    }.items():
        (other / f"{name}.py").write_text(text)
    (package / "base.py").write_text("from acme_pkg.low import thing\nclass Base: pass\n")
    importlib.invalidate_caches()
    yield importlib.import_module("other_pkg.mine").Mine()
    for name in [name for name in sys.modules if name.startswith("other_pkg")]:
        del sys.modules[name]


def test_a_thing_is_made_of_its_class_and_of_all_that_it_derives_from(derived):
    assert modules_of(derived, 1, "text") == ["other_pkg.mine", "acme_pkg.base"]
    assert modules_of(Loud("a", {}, {}))[:2] == ["overflowing_models", "pytest_sdperf.models._stable_diffusion"]


@pytest.mark.parametrize(
    "file", ["acme_pkg/base", "acme_pkg/low", "other_pkg/mine", "other_pkg/deep/__init__", "other_pkg/deep/near",
             "other_pkg/beside"],
)  # fmt: skip
def test_every_package_that_it_derives_from_counts_and_imports_with_dots(derived, tmp_path, file):
    before = source_hash(*modules_of(derived))
    with (tmp_path / f"{file}.py").open("a") as text:
        text.write("# changed\n")
    assert source_hash(*modules_of(derived)) != before


def test_what_it_uses_of_this_project_counts(derived, monkeypatch):
    before, read = source_hash(*modules_of(derived)), Path.read_text

    def changed(path, *args, **named):
        return read(path, *args, **named) + ("# changed\n" if path.name == "_components.py" else "")

    monkeypatch.setattr(Path, "read_text", changed)
    assert source_hash(*modules_of(derived)) != before


def test_rooms_that_hold_types_only_do_not_count():
    assert source_hash("pytest_sdperf.core.errors") == source_hash("pytest_sdperf.core.values") == source_hash()
    assert source_hash("pytest_sdperf.fusing.graph") != source_hash()


def test_what_alters_a_run_changes_no_key_of_what_is_not_altered(monkeypatch):
    """The task that alters files is code of every alteration, and knows none of them."""
    folder = Path(alter.__file__).parent
    tasks, faults = [f"pytest_sdperf.tasks.{path.stem}" for path in folder.glob("*.py")], folder.with_name("faults")
    before, planted, read = source_hash(*tasks), source_hash("pytest_sdperf.faults.builtins"), Path.read_text

    def changed(path, *args, **named):
        return read(path, *args, **named) + ("# changed\n" if faults in path.parents else "")

    monkeypatch.setattr(Path, "read_text", changed)
    assert source_hash(*tasks) == before
    assert source_hash("pytest_sdperf.faults.builtins") != planted


def test_a_module_that_cannot_be_found_has_no_source():
    assert source_hash("no_such_module_anywhere.x") == source_hash()


def test_library_versions_name_what_would_be_imported(tmp_path, monkeypatch):
    import onnx

    (tmp_path / "acme_undistributed.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "acme_unversioned.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert library_versions("onnx", "acme_undistributed", "acme_unversioned", "acme_absent") == {
        "onnx": onnx.__version__,
        "acme_undistributed": "1.2.3",
        "acme_unversioned": "unknown",
        "acme_absent": "missing",
    }


def test_of_several_distributions_the_one_counts_that_is_imported(tmp_path, monkeypatch):
    """`onnxruntime` is on record, and `onnxruntime-gpu` was installed over it."""
    for name, text in {
        "onnxruntime/__init__.py": '__version__ = "1.31.0"\n',
        "onnxruntime-9.9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: onnxruntime\nVersion: 9.9.9\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    importlib.invalidate_caches()
    assert importlib.metadata.version("onnxruntime") == "9.9.9"
    assert library_versions("onnxruntime") == {"onnxruntime": "1.31.0"}


@pytest.mark.parametrize("name", ["diffusers", "numpy", "onnx", "onnxruntime", "sympy", "torch", "transformers"])
def test_the_version_that_is_read_is_the_one_that_is_recorded_where_there_is_only_one(name):
    # torch's build for CUDA says so in its file and not in its metadata: 2.13.0+cu130 and 2.13.0.
    read = library_versions(name)[name]
    assert importlib.metadata.version(name) in (read, read.partition("+")[0])


def test_onnx_ir_is_found_under_its_distribution_name():
    assert library_versions("onnx_ir")["onnx_ir"][0].isdigit()


def test_what_an_optimization_does_is_written_in_its_own_rewrites_and_in_no_others():
    (one,) = (one for one in LADDER if one.name == "group-norm")
    package = "pytest_sdperf.fusing.optimizations"
    own = [f"{package}.fusions.{name}" for name in ("group_norm", "skip_group_norm", "norm_silu")]
    assert modules_of(one) == [package, "pytest_sdperf.core.optimization", *own]
