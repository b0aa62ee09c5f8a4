"""Nothing that an environment of tox installs moves by itself: each package has its version in constraints/."""

from __future__ import annotations

import configparser
import os
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "constraints"

sys.path.append(str(FOLDER))

from pins import is_for_here, moved, pins  # noqa: E402 - a program of tox, no package

# pip and setuptools of a new environment come with virtualenv, which has a version like everything else.
OF_VIRTUALENV = {"pip", "setuptools"}
OURS = "pytest-sdperf"


def names(requirements: list[str]) -> set[str]:
    """Return the packages that requirements name for this Python and platform."""
    return {canonicalize_name(one.name) for one in map(Requirement, requirements) if is_for_here(one)}


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.skipif("TOX_ENV_NAME" not in os.environ, reason="this environment was not made by tox")
@pytest.mark.skipif(os.environ.get("TOX_ENV_NAME") == "newest", reason="what is newest is what nobody pinned")
def test_every_package_that_is_installed_is_pinned() -> None:
    pinned = pins(FOLDER / os.environ.get("SDPERF_TEST_CONSTRAINTS", "cpu.txt"))
    found = moved(pinned)
    assert {name: found[name] for name in sorted(found) if name not in {OURS, *OF_VIRTUALENV}} == {}


def test_no_test_draws_other_examples_than_the_day_before(pytestconfig) -> None:
    if pytestconfig.getoption("--hypothesis-profile"):
        pytest.skip("somebody asked for other examples")
    assert settings.default is not None
    assert settings.default.derandomize
    assert settings.default.database is None
    own = [path.name for path in (ROOT / "tests").rglob("*.py") if "derandomize=False" in path.read_text("utf-8")]
    assert own == [Path(__file__).name]


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


def test_a_line_that_pins_nothing_is_refused(tmp_path) -> None:
    file = tmp_path / "some.txt"
    file.write_text("# tox -e pin\n\nOne_Name==1.0\nother==2.0 ; python_version < '3'\n")
    assert pins(file) == {"one-name": "1.0"}
    file.write_text("some>=1.0\n")
    with pytest.raises(ValueError) as raised:
        pins(file)
    assert str(raised.value) == f"{file}: some>=1.0 is no pin. Type `tox -e pin`, which writes the file anew."


def test_what_setuptools_brings_for_itself_is_not_installed_here(monkeypatch, tmp_path) -> None:
    """setuptools puts a folder of packages of its own onto sys.path where it is imported."""
    for folder, name, version in (("site", "mine", "2.0+cpu"), ("site", "other", "1.0"), ("_vendor", "vendored", "9")):
        place = tmp_path / folder / f"{name}-{version}.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path / folder)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"purelib": str(tmp_path / "site")})
    assert moved({"mine": "2.0", "other": "0.9", "vendored": "8"}) == {"other": "1.0"}
