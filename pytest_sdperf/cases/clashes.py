"""Short names of fixtures that two owners claim: pytest would let one of them win, and the other's tests break."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_sdperf.core.errors import OptionError

SHORT_FIXTURES = "pytest_sdperf.short_fixtures"


def check_owners(item: pytest.Item) -> None:
    """Refuse a test with a fixture that is ours by its short name, and somebody else's as well.

    What is nearer to the test wins, as pytest means it: a fixture of the project itself, and one of ours that a
    `conftest.py` imports by its name. It is a clash where another plugin has a name that `import *` or a plugin
    brought, and where a fixture of the other owner asks for its own and would get ours.

    Raises:
        OptionError: With both owners, and what to type.
    """
    info = getattr(item, "_fixtureinfo", None)  # pytest has no public reader
    known: Mapping[str, Sequence[Any]] = info.name2fixturedefs if info else {}
    for name, definitions in known.items():
        others = [one for one in definitions if one.func.__module__ != SHORT_FIXTURES]
        if not others or len(others) == len(definitions):
            continue
        bringer = _bringer(item.config, name)
        for other in others:
            robbed = [] if definitions[-1] is other else _robbed(name, other, known)
            if robbed or not (_is_local(other, item) or _is_by_name(bringer)):
                raise OptionError(_told(name, other, robbed, bringer, item.config.rootpath))


def _bringer(config: pytest.Config, name: str) -> ModuleType | None:
    """Return the plugin, or rather the deepest `conftest.py`, that brought our fixture of a name."""
    plugins = (plugin for _, plugin in config.pluginmanager.list_name_plugin() if isinstance(plugin, ModuleType))
    found = [plugin for plugin in plugins if _is_ours(vars(plugin).get(name))]
    return max(found, key=lambda one: (_is_conftest(_path(one)), len(_path(one).parts)), default=None)


def _is_ours(fixture: object) -> bool:
    # Before pytest 8.4 a fixture is a function, since then an object round it.
    return getattr(getattr(fixture, "_fixture_function", fixture), "__module__", "") == SHORT_FIXTURES


def _is_by_name(bringer: ModuleType | None) -> bool:
    """Whether a `conftest.py` imports some of our short names, and not all that there are."""
    everything = [value for value in vars(bringer).values() if _is_ours(value)] if bringer else []
    whole = len(vars(sys.modules[SHORT_FIXTURES])["__all__"])
    return bringer is not None and _is_conftest(_path(bringer)) and len(everything) < whole


def _robbed(name: str, other: Any, known: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the fixtures of the other owner that ask for a name, and mean their own."""
    return [
        asking
        for asking, definitions in known.items()
        if asking != name and name in definitions[-1].argnames and _owner(definitions[-1]) == _owner(other)
    ]


def _owner(definition: Any) -> str:
    """Return the file of a fixture in a `conftest.py`, and the package of any other."""
    path = _file(definition)
    return str(path) if _is_conftest(path) else str(definition.func.__module__).partition(".")[0]


def _is_local(definition: Any, item: pytest.Item) -> bool:
    path = _file(definition)
    return path == item.path or _is_conftest(path)


def _file(definition: Any) -> Path:
    code = getattr(definition.func, "__code__", None)  # a callable object has none
    return Path(code.co_filename if code else "")


def _path(module: ModuleType) -> Path:
    return Path(str(module.__file__))


def _is_conftest(path: Path) -> bool:
    return path.name == "conftest.py"


def _told(name: str, other: Any, robbed: Sequence[str], bringer: ModuleType | None, root: Path) -> str:
    path = _file(other)
    theirs = _shown(path, root) if _is_conftest(path) else other.func.__module__
    asking = f", whose fixture '{robbed[0]}' asks for it" if robbed else ""
    through = f" in {_shown(_path(bringer), root)}" if bringer and _is_conftest(_path(bringer)) else ""
    return (
        f"the fixture '{name}' has two owners: pytest_sdperf ({SHORT_FIXTURES}{through}) and {theirs}{asking}. Type "
        f"sdperf_{name} for ours, and bring those of the other short names that you use one by one: "
        f"from {SHORT_FIXTURES} import bench, runner"
    )


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
