"""Fills the catalog: every plug-in's `pytest_sdperf_register` is called by itself, so that its owner is known."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

from pytest_sdperf.cases.options.flags import OPTIONS
from pytest_sdperf.core.catalog import Catalog, Registrar

HOOK = "pytest_sdperf_register"


def load_plugins(pluginmanager: pytest.PytestPluginManager, given: Iterable[str]) -> None:
    """Load the plug-ins that serve options, of those that are given."""
    for option in OPTIONS:
        if option.plugin and option.name in given:
            pluginmanager.import_plugin(option.plugin)


def fill_catalog(pluginmanager: pytest.PytestPluginManager) -> Catalog:
    """Call every registered implementation of the hook, in the order of registration.

    Raises:
        DuplicateNameError: Two plug-ins registered one name.
    """
    catalog = Catalog()
    everyone = registrants(pluginmanager)
    for plugin in everyone:
        others = [other for other in everyone if other is not plugin]
        with catalog.owned_by(registrar_of(plugin)):
            pluginmanager.subset_hook_caller(HOOK, others)(catalog=catalog)
    return catalog


def registrants(pluginmanager: pytest.PytestPluginManager) -> list[object]:
    """Return the plugins that implement the hook, in the order of registration."""
    return [implementation.plugin for implementation in pluginmanager.hook.pytest_sdperf_register.get_hookimpls()]


def registrar_of(plugin: object) -> Registrar:
    """Return the module of a plugin, which is one itself or an object of a class in one, and its top-level package."""
    name = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
    top = sys.modules.get(name.partition(".")[0]) or sys.modules[name]
    if top.__file__ is None:
        return Registrar(name, Path(next(iter(top.__path__))))
    file = Path(top.__file__)
    return Registrar(name, file.parent if file.name == "__init__.py" else file)


def too_late(plugin: object, root: Path) -> str:
    """Say that a plug-in registers after every option was checked against the catalog, and what to do."""
    where = getattr(plugin, "__file__", None) or registrar_of(plugin).module
    return (
        f"{where} registers after the catalog is closed. Move its {HOOK} to {root / 'conftest.py'}, "
        f"or load the file with -p."
    )
