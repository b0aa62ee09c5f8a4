"""A search that fails takes nothing away from what the comparison said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_sdperf.checks.locate import locate as search
from pytest_sdperf.core.errors import BuildError, WorkerError
from pytest_sdperf.core.settings import Settings


@pytest.mark.parametrize("error", [BuildError("no room.\nmore"), KeyError("no room.")])
def test_a_search_that_fails_is_told_in_a_sentence(monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(search, "_locate", fail)
    located = search.locate(SimpleNamespace(case=SimpleNamespace(component="unet")), (), settings=Settings())
    assert (located.component, located.kind, located.reproduction) == ("unet", "hidden", None)
    assert located.told.replace("'", "") == "Looking inside failed: no room."


@pytest.mark.parametrize(("module", "package"), [("torch", "torch"), ("onnx_ir.passes", "onnx_ir")])
def test_where_a_package_is_missing_the_command_that_installs_it_is_told(monkeypatch, module, package):
    def fail(*args, **kwargs):
        raise WorkerError(f"ModuleNotFoundError: No module named '{module}'\nTraceback: more", reason="error")

    monkeypatch.setattr(search, "_locate", fail)
    located = search.locate(SimpleNamespace(case=SimpleNamespace(component="unet")), (), settings=Settings())
    assert located.told == (
        f"Looking inside failed: ModuleNotFoundError: No module named '{module}'. The search computes with {package}; "
        f"to have it, type: pip install {package}"
    )
