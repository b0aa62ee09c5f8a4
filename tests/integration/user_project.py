"""A user's project in an empty folder, and pytest as the user types it.

It is a process of its own, with pytest-xdist and pytest-benchmark beside the plugin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any
from xml.etree import ElementTree

import forked_pytest
import pytest

HERE = Path(__file__).parent
RESULTS = "results.json"
USUAL = {
    "state-dir": "state",
    "model": "dense",
    "engine": "ort-cpu",
    "processes": 1,
    "max-processes": 1,
    "locate": "off",  # `checks/locate` finds where a fault begins, which takes longer than all the rest
    "json": RESULTS,
}
SHORT = "from pytest_sdperf.short_fixtures import *"
# Records what is measured. The machine of these tests is never quiet, and a reason is what such a one needs.
RECORD = ("--sdperf-update-baselines", "--sdperf-reason=other tests run beside it")
ACME = """
    import acme_engines
    import dense_model

    def pytest_sdperf_register(catalog):
        dense_model.pytest_sdperf_register(catalog)
        acme_engines.pytest_sdperf_register(catalog)
"""
# The same, and each process that loads a case says so in a file.
COUNTED = f"""{ACME}
    from pathlib import Path

    load = acme_engines.AcmeEngine.load

    def counted(self, request):
        with Path(__file__).with_name("loaded").open("a") as file:
            file.write(self.name + chr(10))
        return load(self, request)

    acme_engines.AcmeEngine.load = counted
"""
SPEED_TEST = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
    def test_speed(runner, bench):
        bench(runner)
"""


@dataclass(frozen=True)
class User:
    """Somebody who tests a model of their own.

    Attributes:
        pytester: Runs pytest.
        cache: The cache folder that every test of this folder shares.
    """

    pytester: pytest.Pytester
    cache: Path

    @property
    def path(self) -> Path:
        """The project's folder."""
        return self.pytester.path

    def project(
        self, *, conftest: str = "", tests: str = SPEED_TEST, profiles: str = "", options: Mapping[str, Any] = USUAL
    ) -> None:
        """Write the project: settings, plug-ins and one file of tests."""
        settings = {**USUAL, "cache-dir": str(self.cache), **options}
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        (self.path / "pyproject.toml").write_text("\n".join(["[tool.sdperf]", *lines, dedent(profiles)]))
        self.copy("dense_model.py")
        self.copy("acme_engines.py")
        written = dedent(conftest) or "from dense_model import pytest_sdperf_register"
        self.pytester.makeconftest(f"{written}\n{SHORT}\n")
        self.pytester.makepyfile(test_mine=tests)

    def copy(self, name: str) -> None:
        """Copy a file of this folder into the project."""
        (self.path / name).write_text((HERE / name).read_text())

    def run(self, *arguments: str) -> pytest.RunResult:
        """Type `pytest ...`."""
        (self.path / RESULTS).unlink(missing_ok=True)
        return forked_pytest.run(self.pytester, "--junitxml=junit.xml", *arguments)

    def results(self) -> Any:
        """Return what `--sdperf-json` wrote."""
        return json.loads((self.path / RESULTS).read_text())

    def verdicts(self, metric: str = "latency") -> list[dict[str, Any]]:
        """Return the verdicts on one metric, in the order of the tests."""
        return [
            verdict
            for report in self.results()["reports"]
            for verdict in report["verdicts"]
            if verdict["metric"] == metric
        ]

    def outcomes(self, metric: str = "latency") -> list[str]:
        """Return the outcomes on one metric, in the order of the tests."""
        return [verdict["outcome"] for verdict in self.verdicts(metric)]

    def by_engine(self) -> dict[str, dict[str, Any]]:
        """Return the first verdict on each engine."""
        return {report["case"]["engine"]: report["verdicts"][0] for report in self.results()["reports"]}

    def agreements(self) -> list[dict[str, Any]]:
        """Return what the tests of agreement compared, in their order."""
        found = [report["checks"].get("agreement") for report in self.results()["reports"]]
        return [one for check in found if check for one in check["finding"]]

    def all_outcomes(self) -> set[str]:
        """Return every outcome of the last run, of any metric."""
        return {verdict["outcome"] for report in self.results()["reports"] for verdict in report["verdicts"]}

    def junit(self) -> dict[str, int]:
        """Return the counts of the JUnit file."""
        suite = ElementTree.parse(self.path / "junit.xml").getroot().find("testsuite")
        return {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}

    def failures(self) -> list[str]:
        """Return the whole texts of the failed tests, as a CI server shows them."""
        return [failure.text or "" for failure in ElementTree.parse(self.path / "junit.xml").iter("failure")]

    def baseline_file(self) -> Path:
        """Return the one baseline file of the project."""
        (found,) = (self.path / "baselines").glob("*.json")
        return found

    def stored_cases(self) -> dict[str, Any]:
        """Return what the baseline file holds, by case key."""
        cases: dict[str, Any] = json.loads(self.baseline_file().read_text())["cases"]
        return cases

    def stored_case(self) -> Any:
        """Return what the baseline file holds of its one case."""
        (stored,) = self.stored_cases().values()
        return stored


def report_of(result: pytest.RunResult) -> list[str]:
    """Return the lines of the suite's own section of the terminal report."""
    lines = result.outlines
    start = next(number for number, line in enumerate(lines) if line.strip("= ") == "sdperf")
    rest = lines[start + 1 :]
    end = next((number for number, line in enumerate(rest) if line.startswith(("=====", "-----"))), len(rest))
    return [line for line in rest[:end] if line.strip()]


def joined(lines: Sequence[str]) -> str:
    """Return wrapped lines as one text."""
    return " ".join(" ".join(lines).split())
