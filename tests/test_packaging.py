"""What a person gets who installs the wheel: built from the sdist, installed into an environment of its own."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_values import CASE, measurement

import pytest_sdperf
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.report.results import SavedResults, write_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary

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
        (self.site,) = folder.glob("Lib/site-packages" if os.name == "nt" else "lib/*/site-packages")

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
    # Our packages come after the new environment's, and path lines in them (editable installs) are not followed.
    (home.site / "packages-of-the-test-run.pth").write_text("\n".join(path for path in sys.path if "-packages" in path))
    _install(wheel, home)
    return home


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return what `pip install .` makes: the wheel, and the packages that it needs, and no others."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, with_pip=False)
    home = Installed(folder)
    for name in _needed(["pytest-sdperf"]):
        found = distribution(name)
        tops = {file.parts[0] for file in found.files or () if not file.parts[0].startswith(("..", "__pycache__"))}
        for top in tops if name != "pytest-sdperf" else ():
            (home.site / top).symlink_to(Path(str(found.locate_file(top))))
    _install(wheel, home)
    return home


def _needed(names: list[str]) -> dict[str, None]:
    """Return distributions and all that they need here, without extras."""
    known: dict[str, None] = {}
    while names:
        name = names.pop()
        if name in known:
            continue
        known[name] = None
        for line in distribution(name).requires or ():
            marker = line.partition(";")[2]
            if not ("extra ==" in marker or "win32" in marker or "python_version <" in marker):
                names += re.findall(r"^[\w.-]+", line)
    return known


def _install(wheel: Path, home: Installed) -> None:
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
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "benchmarks/house.py",
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
    assert names == {
        "filelock",
        "jinja2",
        "msgspec",
        "numpy",
        "nvidia-ml-py",
        "platformdirs",
        "psutil",
        "pytest",
        "scipy",
    }


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
        "from pytest_sdperf.baselines import counts, published\n"
        "from pytest_sdperf.baselines.shipped import shipped_folder\n"
        "print(published.folder())\n"
        "print(shipped_folder('fusions'))\n"
        "print(len(published.load(published.folder())))\n"
        "print(*sorted(path.name for path in shipped_folder('fusions').iterdir() if counts.read(path)))\n"
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
    assert " 7 passed" in result.stdout  # operators of a build are judged for each fuser
    reports = json.loads((tmp_path / "results.json").read_text())["reports"]
    found = {report["nodeid"].partition("::")[0].rpartition("/")[2]: report for report in reports}
    assert set(found) == {
        "test_agreement.py",
        "test_equivalence.py",
        "test_fusions.py",
        "test_pipelines.py",
        "test_replay.py",
    }
    agreements = found["test_agreement.py"]["checks"]["agreement"]["finding"]
    assert [agreement["level"] for agreement in agreements] == ["component", "joints"]
    assert all(0 < agreement["error"] <= agreement["limit"] for agreement in agreements)
    assert [verdict["outcome"] for verdict in found["test_fusions.py"]["verdicts"]] == ["PASSED"]
    assert {verdict["outcome"] for verdict in found["test_pipelines.py"]["verdicts"]} == {"NEW"}
    assert [verdict["code"] for verdict in found["test_replay.py"]["verdicts"]] == ["answers-repeated"]


def test_a_person_can_say_which_installation_is_used(installed: Installed, tmp_path: Path) -> None:
    result = installed.run("python", "-c", "import pytest_sdperf; print(pytest_sdperf.__file__)", cwd=tmp_path)
    assert Path(result.stdout.strip()).is_relative_to(installed.bin.parent), result.stdout + result.stderr


@pytest.mark.parametrize("suite", ["", ".test_fusions"])
def test_without_extras_a_run_ends_in_one_sentence_before_its_first_test(
    bare: Installed, tmp_path: Path, suite: str
) -> None:
    result = bare.run("python", "-m", "pytest", "--pyargs", f"pytest_sdperf.suites{suite}", cwd=tmp_path)
    assert result.returncode == 4, result.stdout + result.stderr
    (told,) = filter(None, result.stderr.splitlines())
    assert told.startswith("ERROR: torch is not installed, and ")
    assert told.endswith(" In a clone of pytest_sdperf type pip install '.[cpu]'.")
    assert not re.search(r"Traceback|\d+ (passed|failed|skipped)", result.stdout)


@pytest.mark.parametrize("suite", ["test_agreement", "test_pipelines", "test_replay"])
def test_without_extras_a_suite_of_engines_is_no_success_and_says_what_to_install(
    bare: Installed, tmp_path: Path, suite: str
) -> None:
    result = bare.run("python", "-m", "pytest", "--pyargs", f"pytest_sdperf.suites.{suite}", cwd=tmp_path)
    assert result.returncode == 10, result.stdout + result.stderr
    for package in ("torch", "onnxruntime"):
        assert f"tests skipped: package '{package}' is not installed; type: pip install " in result.stdout
    assert not re.search(r"Traceback|\d+ (passed|failed)", result.stdout + result.stderr)


# ------------------------------------------------------------------------------------------ docs/ci.md, job by job


class Job:
    """A machine of GitHub that runs a job of the manual in a checkout of this repository, without extras.

    Attributes:
        checkout: Its folder.
    """

    def __init__(self, folder: Path, bare: Installed) -> None:
        self.checkout, self._bin = folder / "checkout", folder / "bin"
        for path in (self.checkout, self._bin, folder / "origin"):
            path.mkdir()
        for name in ("pyproject.toml", "conftest.py", "tests/conftest.py", "tests/whole_runs.py", "suites/conftest.py"):
            (self.checkout / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.checkout / name)
        (self.checkout / "baselines").mkdir()
        # `gh run download "$RUN" --name results --dir artifacts`, and `gh pr create`.
        (self._bin / "gh").write_text(
            '#!/bin/sh\necho "$@" >> asked\nif [ "$1" = run ]; then mkdir "$7" && cp ../results.json "$7"; fi\n'
        )
        (self._bin / "pip").write_text('#!/bin/sh\n[ "$*" = "install ." ]\n')  # that has been done
        for program in self._bin.iterdir():
            program.chmod(0o755)
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))
        }
        self._env = {
            **inherited,
            "PATH": os.pathsep.join([str(self._bin), str(bare.bin), os.environ["PATH"]]),
            "HOME": str(folder),
            "GITHUB_STEP_SUMMARY": str(folder / "step-summary.md"),
        }
        self.script("git init -q --bare ../origin && git init -q && git remote add origin ../origin")
        self.script("git -c user.name=me -c user.email=me@localhost commit -q --allow-empty -m first")

    def script(self, text: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one step, as GitHub does: `bash -e`."""
        return subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=self.checkout,
            env={**self._env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def run(self, job: dict[str, Any], **env: str) -> Iterator[tuple[str, int, str]]:
        """Yield each step of a job with its exit status and what it wrote."""
        for step in job["steps"]:
            if "run" in step:
                done = self.script(step["run"], **env)
                yield step["run"], done.returncode, done.stdout + done.stderr


def _save_results(path: Path, *times_ms: float, date: str = "2026-11-28T10:00Z") -> None:
    """Write what the job `measure` would have kept of a run on an A100."""
    measured, machine = measurement(*times_ms), {"cores": 2}
    report = CaseReport("a::b", CASE, measured, verdicts=judge(measured, None, policy=Policy()), policy=Policy())
    run = RunInfo("A card", "a100", "a100", machine)
    summary = RunSummary(selected=1, measured=True, collected=(CASE,))
    write_results(
        path, SavedResults(date=date, run=run, summary=summary, policy=Policy(), settings={}, reports=(report,))
    )


def test_the_jobs_of_the_manual_that_need_no_gpu_run_as_they_are_written_without_extras(
    bare: Installed, tmp_path: Path
) -> None:
    assert bare.run("python", "-c", "import hypothesis", cwd=tmp_path).returncode == 1
    assert bare.run("python", "-c", "import torch", cwd=tmp_path).returncode == 1
    (page,) = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs" / "ci.md").read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    jobs = yaml.safe_load(page)["jobs"]
    job = Job(tmp_path, bare)

    _save_results(tmp_path / "results.json", 9.9, 10.0, 10.1)
    accepted = list(job.run(jobs["accept"], RUN="7", REASON=""))
    assert [status for _, status, _ in accepted] == [0] * len(accepted), accepted
    assert list(json.loads((job.checkout / "baselines" / "a100.json").read_text())["cases"]) == [CASE.key]
    assert (job.checkout / "asked").read_text() == "run download 7 --name results --dir artifacts\npr create --fill\n"
    assert "baselines-7" in job.script("git branch --list --remotes").stdout + job.script("git branch").stdout

    for times_ms, status, told in (((9.9, 10.0, 10.1), 0, "1 HELD"), ((14.9, 15.0, 15.1), 1, "1 REGRESSED")):
        _save_results(job.checkout / "results.json", *times_ms, date="2026-11-29T10:00Z")
        steps = list(job.run(jobs["gate"]))
        assert [one for _, one, _ in steps] == [0, status, 0], steps
        assert f"verdicts of 1 case: {told}" in (tmp_path / "step-summary.md").read_text()
