"""What a person gets who installs the wheel: built from the sdist, installed into an environment of its own."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import pytest_sdperf

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
VERSION = pytest_sdperf.__version__
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
SHIPPED = ("fusions", "measured", "published")  # folders of baselines/
HEAVY = ("torch", "onnx", "onnxruntime", "diffusers", "transformers", "scipy", "amdsmi", "pynvml")


class Installed:
    """An environment that holds the wheel, and sees the packages of the one that runs this test but not its plugin."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / SCRIPTS
        self.python = self.bin / "python"

    def run(self, *command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))
        }
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=cwd,
            env={**inherited, "COLUMNS": "120", **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Without --wheel and --sdist, `build` makes the wheel from the sdist, so an incomplete sdist shows here.
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, capture_output=True, text=True
    )
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return dist / f"pytest_sdperf-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    home = Installed(folder)
    (site,) = folder.glob("Lib/site-packages" if os.name == "nt" else "lib/*/site-packages")
    # Our packages come after the new environment's, and path lines in them (editable installs) are not followed.
    (site / "packages-of-the-test-run.pth").write_text("\n".join(path for path in sys.path if "-packages" in path))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        home.python,
        "install",
        "--no-deps",
        "--no-index",
        "--ignore-installed",
    ]
    subprocess.run([*pip, wheel], check=True, capture_output=True, text=True)
    return home


@pytest.fixture
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _read(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"pytest_sdperf-{VERSION}.dist-info/{name}").decode()


def _files(folder: Path) -> set[str]:
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {name.as_posix() for name in names if not any(part.startswith((".", "__pycache__")) for part in name.parts)}


def test_the_wheel_holds_the_package_and_the_suites_and_nothing_else(names: set[str]) -> None:
    package = {f"pytest_sdperf/{name}" for name in _files(ROOT / "pytest_sdperf")}
    suites = {f"pytest_sdperf/suites/{name}" for name in _files(ROOT / "suites")}
    shipped = {f"pytest_sdperf/data/{kind}/{name}" for kind in SHIPPED for name in _files(ROOT / "baselines" / kind)}
    ours = {name for name in names if ".dist-info/" not in name}
    assert ours == package | suites | shipped
    assert "pytest_sdperf/py.typed" in ours
    assert any(name.startswith("pytest_sdperf/suites/test_") for name in ours)


def test_the_sdist_can_test_itself(dist: Path) -> None:
    with tarfile.open(dist / f"pytest_sdperf-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "LICENSE",
        "README.md",
        "conftest.py",
        "constraints/cpu.txt",
        "pyproject.toml",
        "tests/conftest.py",
        "tox.ini",
    }
    assert needed - names == set()


def test_entry_points(wheel: Path) -> None:
    entries = configparser.ConfigParser()
    entries.read_string(_read(wheel, "entry_points.txt"))
    assert {section: dict(entries[section]) for section in entries.sections()} == {
        "console_scripts": {"sdperf": "pytest_sdperf.cli:main"},
        "pytest11": {"sdperf": "pytest_sdperf.plugin"},
    }


def test_an_installation_without_extras_leaves_torch_and_onnxruntime_alone(wheel: Path) -> None:
    metadata = Parser().parsestr(_read(wheel, "METADATA"))
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = {line.split(">")[0].split(";")[0].strip() for line in required}
    assert names == {"filelock", "msgspec", "numpy", "nvidia-ml-py", "platformdirs", "psutil", "pytest", "scipy"}


def test_the_rocm_extra_replaces_nothing_of_a_rocm_installation(wheel: Path) -> None:
    metadata = Parser().parsestr(_read(wheel, "METADATA"))
    rocm = [line for line in metadata.get_all("Requires-Dist", []) if "extra == 'rocm'" in line]
    assert rocm
    assert [line for line in rocm if line.startswith(("torch", "onnxruntime", "amdsmi"))] == []


def test_the_command_explains_itself(installed: Installed, tmp_path: Path) -> None:
    result = installed.run("sdperf", "--help", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("usage: sdperf")


def test_pytest_help_lists_the_options(installed: Installed, tmp_path: Path) -> None:
    result = installed.run("python", "-m", "pytest", "--help", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "--sdperf-engine" in result.stdout


def test_the_plugin_works_without_autoload(installed: Installed, tmp_path: Path) -> None:
    result = installed.run(
        "python",
        "-m",
        "pytest",
        "-p",
        "pytest_sdperf.plugin",
        "--help",
        cwd=tmp_path,
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    assert result.returncode == 0, result.stderr
    assert "--sdperf-engine" in result.stdout


def test_the_installed_suites_are_collected(installed: Installed, tmp_path: Path) -> None:
    result = installed.run(
        "python", "-m", "pytest", "--pyargs", "pytest_sdperf.suites", "--collect-only", "-q", cwd=tmp_path
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "test_fusions.py" in result.stdout


def test_one_of_the_installed_suites_is_collected_with_the_command_of_the_manual(
    installed: Installed, tmp_path: Path
) -> None:
    options = ["--sdperf-fuser=native", "--sdperf-component=unet"]
    told = f"pytest --pyargs pytest_sdperf.suites.test_fusions {options[0]}"
    assert told in (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    result = installed.run("python", "-m", *told.split(), options[1], "--collect-only", "-q", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    name = "test_every_operator_that_the_model_allows_is_fused[sd15-thin-unet-at-bias-add-by-native-from-dynamo]"
    assert [line.rpartition("::")[2] for line in result.stdout.splitlines() if "::" in line] == [name]


@pytest.mark.parametrize("arguments", [["--help"], ["--collect-only", "-q", "--pyargs", "pytest_sdperf.suites"]])
def test_looking_loads_no_heavy_library(installed: Installed, tmp_path: Path, arguments: list[str]) -> None:
    program = (
        "import sys, pytest\n"
        f"status = pytest.main({arguments!r})\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('LOADED', loaded)\n"
        "sys.exit(status)\n"
    )
    result = installed.run("python", "-c", program, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "LOADED []"


def test_shipped_files_are_found_in_the_installed_package(installed: Installed, tmp_path: Path) -> None:
    program = (
        "from pytest_sdperf.baselines import fusions, published\n"
        "from pytest_sdperf.baselines.shipped import shipped_folder\n"
        "print(published.folder())\n"
        "print(shipped_folder('fusions'))\n"
        "print(len(published.load(published.folder())))\n"
        "print(*sorted(path.name for path in shipped_folder('fusions').iterdir() if fusions.read(path)))\n"
    )
    result = installed.run("python", "-c", program, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    published, fusions, sources, versions = result.stdout.splitlines()
    assert Path(published).is_relative_to(installed.bin.parent)
    assert Path(fusions).is_relative_to(installed.bin.parent)
    assert int(sources) == len(list((ROOT / "baselines" / "published").glob("*.json")))
    assert versions.split() == sorted(path.name for path in (ROOT / "baselines" / "fusions").glob("*.json"))
    assert versions


def test_the_installed_suites_run(installed: Installed, tmp_path: Path) -> None:
    # The text encoder is the smallest component: all suites but that of precision, which needs a whole request.
    homes = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
    selection = ["--component=text_encoder", "--engine=ort-cpu", "--optimization=fp32"]
    result = installed.run(
        "sdperf", "run", *selection, "--sdperf-json=results.json", "--processes=1", cwd=tmp_path, **homes
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 5 passed" in result.stdout  # operators of a build are judged for each fuser
    reports = json.loads((tmp_path / "results.json").read_text())["reports"]
    found = {report["nodeid"].partition("::")[0].rpartition("/")[2]: report for report in reports}
    assert set(found) == {"test_agreement.py", "test_fusions.py", "test_pipelines.py", "test_replay.py"}
    (agreement,) = found["test_agreement.py"]["agreements"]
    assert 0 < agreement["error"] <= agreement["limit"]
    assert [verdict["outcome"] for verdict in found["test_fusions.py"]["verdicts"]] == ["PASSED"]
    assert {verdict["outcome"] for verdict in found["test_pipelines.py"]["verdicts"]} == {"NEW"}
    assert [verdict["code"] for verdict in found["test_replay.py"]["verdicts"]] == ["answers-repeated"]


def test_a_person_can_say_which_installation_is_used(installed: Installed, tmp_path: Path) -> None:
    result = installed.run("python", "-c", "import pytest_sdperf; print(pytest_sdperf.__file__)", cwd=tmp_path)
    assert Path(result.stdout.strip()).is_relative_to(installed.bin.parent), result.stdout + result.stderr
