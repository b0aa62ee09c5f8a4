"""Nothing that an environment of tox installs moves by itself: each package has its version in constraints/."""

from __future__ import annotations

import configparser
import os
import re
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "constraints"
# pip and setuptools of a new environment come with virtualenv, which has a version like everything else.
OF_VIRTUALENV = {"pip", "setuptools"}
OURS = "pytest-sdperf"


def pins(file: Path) -> dict[str, str]:
    """Return the version of each package that a file of constraints has for this Python and platform."""
    lines = (line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    found = [requirement for line in lines if (requirement := Requirement(line)) and _is_for_here(requirement)]
    assert all(re.fullmatch(r"==[^*]+", str(requirement.specifier)) for requirement in found)
    return {canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==") for requirement in found}


def _is_for_here(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate()


def names(requirements: list[str]) -> set[str]:
    """Return the packages that requirements name for this Python and platform."""
    return {canonicalize_name(one.name) for one in map(Requirement, requirements) if _is_for_here(one)}


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.skipif("TOX_ENV_NAME" not in os.environ, reason="this environment was not made by tox")
def test_every_package_that_is_installed_is_pinned() -> None:
    pinned = pins(FOLDER / os.environ.get("SDPERF_TEST_CONSTRAINTS", "cpu.txt"))
    folder = sysconfig.get_paths()["purelib"]  # setuptools brings packages of its own in a folder below
    installed = {canonicalize_name(one.name): one.version for one in metadata.distributions(path=[folder])}
    # A local version such as 2.13.0+cpu is another build of the same release.
    moved = {name: version for name, version in installed.items() if pinned.get(name) != version.partition("+")[0]}
    assert {name: moved[name] for name in sorted(moved) if name not in {OURS, *OF_VIRTUALENV}} == {}


@pytest.mark.parametrize(("file", "extra"), [("cpu", "cpu"), ("cuda", "cuda"), ("oldest", "cpu")])
def test_every_package_that_the_project_names_is_pinned(file: str, extra: str, project) -> None:
    named = list(project["project"]["dependencies"])
    named += [line for name in (extra, "dev", "pictures") for line in project["project"]["optional-dependencies"][name]]
    assert names(named) - set(pins(FOLDER / f"{file}.txt")) == set()


def test_the_oldest_versions_are_the_lowest_that_the_project_allows(project) -> None:
    pinned = pins(FOLDER / "oldest.txt")
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["cpu"]]
    lowest = {canonicalize_name(one.name): one for one in map(Requirement, wanted)}
    for name, requirement in lowest.items():
        (bound,) = [item.version for item in requirement.specifier if item.operator == ">="]
        # The lowest release that there is: 6.0 may be 6.0.0, and a release may have been withdrawn.
        assert pinned[name] == bound or pinned[name].startswith(f"{bound}."), (name, pinned[name], bound)


def test_what_builds_the_package_is_pinned_too(project) -> None:
    # hatchling asks for editables when it makes an editable installation.
    assert names([*project["build-system"]["requires"], "editables"]) <= set(pins(FOLDER / "cpu.txt"))
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    assert tox["testenv:.pkg"]["set_env"] == "PIP_CONSTRAINT = {tox_root}/constraints/cpu.txt"


def test_no_environment_of_tox_installs_a_package_that_is_not_pinned() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    for name, section in tox.items():
        if name != "testenv:newest" and "deps" in section:
            assert names(section["deps"].split()) <= set(pins(FOLDER / "oldest.txt")), name
            assert "PIP_CONSTRAINT = {tox_root}/constraints/oldest.txt" in section["set_env"], name
