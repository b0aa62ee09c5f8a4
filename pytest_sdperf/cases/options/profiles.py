"""`[tool.sdperf]` of a project's `pyproject.toml`: options, and named profiles of engines.

Example::

    [tool.sdperf]
    pool = "rack-3"

    [tool.sdperf.engines.nightly-ort]
    engine = "ort-cuda"
    options = { cuda_graph = "on" }
    python = "~/venvs/nightly/bin/python"
    env = { ORT_LOG = "1" }
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_sdperf.cases.options.engine_requests import Profile
from pytest_sdperf.cases.options.flags import BY_NAME
from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.machine.gpu_facts import VISIBILITY_VARIABLES

ENGINES = "engines"
TOLERANCES = "tool.sdperf.tolerances"
_TOLERANCES = TOLERANCES.rpartition(".")[2]
_PROFILE_KEYS = ("engine", "options", "python", "env")


@dataclass(frozen=True)
class Project:
    """What a project's `pyproject.toml` says.

    Attributes:
        options: Option name -> text.
        profiles: Profile name -> profile.
        tolerances: Tables of `[[tool.sdperf.tolerances]]`, key -> text; `options.tolerances` reads them.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    tolerances: tuple[Mapping[str, str], ...] = ()


def read_project(root: Path) -> Project:
    """Read `[tool.sdperf]` of `root/pyproject.toml`; an absent file or table is an empty project.

    Raises:
        OptionError: The file is not TOML, a value has the wrong type, or a profile sets a variable that hides GPUs.
        UnknownNameError: A key that is neither an option nor `engines` or `tolerances`, or an unknown key of a profile.
    """
    path = root / "pyproject.toml"
    if not path.is_file():
        return Project()
    try:
        data = tomllib.loads(strict_json.text_of(path))
    except RecursionError:
        raise OptionError(f"{path} has too many lists or tables inside each other. Write them side by side.") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise OptionError(f"{path} is not valid TOML: {error}. Correct that line.") from error
    table = _table(_table(data.get("tool", {}), "[tool]").get("sdperf", {}), "[tool.sdperf]")
    profiles = _table(table.get(ENGINES, {}), f"[tool.sdperf.{ENGINES}]")
    return Project(
        options=_options({key: value for key, value in table.items() if key not in (ENGINES, _TOLERANCES)}),
        profiles={name: _profile(name, value, root) for name, value in profiles.items()},
        tolerances=_tolerances(table.get(_TOLERANCES, [])),
    )


def _options(table: Mapping[str, Any]) -> dict[str, str]:
    options = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in BY_NAME:
            raise UnknownNameError("key in [tool.sdperf]", key, (*BY_NAME, ENGINES, _TOLERANCES))
        options[name] = _text(value, f"[tool.sdperf] {key}")
    return options


def _tolerances(value: Any) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list):
        raise OptionError(f"[{TOLERANCES}] is one table. Write two brackets, for a list of them: [[{TOLERANCES}]].")
    tables = (_texts(table, f"[[{TOLERANCES}]] {number}") for number, table in enumerate(value, 1))
    return tuple({key.replace("_", "-"): text for key, text in table.items()} for table in tables)


def _profile(name: str, value: Any, root: Path) -> Profile:
    where = f"[tool.sdperf.{ENGINES}.{name}]"
    table = _table(value, where)
    UnknownNameError.check(f"key in {where}", table, _PROFILE_KEYS)
    if "engine" not in table:
        raise OptionError(f'{where} names no engine. Add a line such as: engine = "ort-cpu".')
    python = table.get("python")
    return Profile(
        name=name,
        engine=_text(table["engine"], f"{where} engine"),
        options=_texts(table.get("options", {}), f"{where} options"),
        python=None if python is None else root / _python(_text(python, f"{where} python"), where),
        env=_environment(table.get("env", {}), f"{where} env"),
    )


def _python(said: str, where: str) -> Path:
    try:
        return Path(said).expanduser()
    except RuntimeError:
        told = f"{where} python is {said!r}, and that user has no home here. Write the whole path."
        raise OptionError(told) from None


def _environment(value: Any, where: str) -> dict[str, str]:
    env = _texts(value, where)
    for name in env:
        if not name or "=" in name or "\0" in name:
            raise OptionError(f"{where} names a variable {name!r}, which no environment can hold. Rename it.")
        if name.upper() in VISIBILITY_VARIABLES:
            raise OptionError(
                f"{where} sets {name}, which would move the measurement to another device than the one that its result "
                "names. Remove it, and choose the device with --sdperf-gpu=DEVICE."
            )
    return env


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OptionError(f"{where} is {value!r}, which is not a table.")
    return value


def _texts(value: Any, where: str) -> dict[str, str]:
    return {name: _text(item, f"{where}.{name}") for name, item in _table(value, where).items()}


def _text(value: Any, where: str) -> str:
    """Return a scalar, or a list of scalars joined by commas, as it is typed on the command line (true is `on`)."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str) and "\0" in value:
        raise OptionError(f"{where} is {value!r}, and no option can hold the character of code 0. Take it out.")
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, list):
        return ",".join(_text(item, where) for item in value)
    raise OptionError(f"{where} is {value!r}. Allowed: a text, a number, true or false, or a list of these.")
