"""Where the module of a pipeline's function lies: workers, also under another interpreter, are told."""

from __future__ import annotations

import pytest

from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.pipeline_factory import parse_factory
from pytest_sdperf.cases.options.reading import SettingsParser
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.settings import PipelineFactory


def parse(text, *, started_in, root):
    reader = SettingsParser({}, Catalog(), {}, "cpu", started_in=started_in, root=root)
    return parse_factory(OptionValue(text, "--pipeline"), reader)


@pytest.fixture
def folders(tmp_path):
    for name in ("started", "root", "path"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_the_folder_is_found_on_the_path_then_where_pytest_started_then_at_the_root(folders, monkeypatch):
    def found():
        factory = parse("own_pipe.sub:make", started_in=folders / "started", root=folders / "root")
        assert (factory.module, factory.function, factory.label) == ("own_pipe.sub", "make", "own_pipe.sub.make")
        assert factory.spelled == "--sdperf-pipeline=own_pipe.sub:make"
        return factory.folder

    (folders / "root/own_pipe").mkdir()
    assert found() == str(folders / "root")
    (folders / "started/own_pipe.py").touch()
    assert found() == str(folders / "started")
    (folders / "path/own_pipe").mkdir()
    (folders / "path/own_pipe/__init__.py").touch()
    monkeypatch.syspath_prepend(folders / "path")
    assert found() == str(folders / "path")


@pytest.mark.parametrize("module", ["json", "pluggy", "sys"])
def test_what_is_installed_needs_no_folder(module, folders):
    assert parse(f"{module}:make", started_in=folders, root=folders) == PipelineFactory(module, "make")
