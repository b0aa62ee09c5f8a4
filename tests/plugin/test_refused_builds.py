"""A build that cannot be made is a verdict on its case, wherever a test meets it, and the report tells it once."""

from __future__ import annotations

import json

import pytest
import scipy.stats  # noqa: F401 - pytest runs inside this process, which can load numpy only once

# Nothing can be built, as where a fusion of somebody else's optimizer raises.
REFUSED = """
    import os

    import pytest

    from pytest_sdperf.core import errors
    from pytest_sdperf.builds.builder import Builder
    from pytest_sdperf.checks.agreement import check as agreement
    from pytest_sdperf.plugin.session import Session

    def refuse(self, *args, **_):
        kind = getattr(errors, os.environ["KIND"])
        words = "the optimizer failed in its fusion group_norm. Fuse the graph with --fuser=native."
        raise kind("unet", [words]) if os.environ["KIND"] == "UnsupportedGraphError" else kind(words)

    PATCH = pytest.MonkeyPatch()

    def pytest_configure():
        PATCH.setattr(Builder, "build", refuse)
        PATCH.setattr(Builder, "expected_counts", lambda self, *_: {})
        PATCH.setattr(Session, "calibration", lambda self, case: None)
        PATCH.setattr(agreement, "agree", lambda runner: runner.builds())  # without a reference of a toy

    def pytest_unconfigure():
        PATCH.undo()
"""
TESTS = """
    def test_fused(build, expected_counts, fused):
        fused(build, expected_counts)

    def test_agrees(runner, agree):
        agree(runner)

    def test_replays(runner, replay):
        replay(runner)

    def test_is_fast(runner, bench):
        bench(runner)
"""
ONE = [
    "--sdperf-component=unet", "--sdperf-optimization=fp32", "--sdperf-fuser=ort", "--sdperf-engine=ort-cpu",
    "--sdperf-state-dir=state", "--sdperf-json=out.json",
]  # fmt: skip
SAID = "The optimizer failed in its fusion group_norm. Fuse the graph with --fuser=native. [refused]"
NAMES = {
    "test_fused": "test_it.py::test_fused[sd15-thin-unet-at-fp32-by-ort-from-dynamo]",
    "test_agrees": "test_it.py::test_agrees[sd15-thin-unet-on-ort-cpu-at-fp32-by-ort]",
    "test_replays": "test_it.py::test_replays[sd15-thin-unet-on-ort-cpu-at-fp32-by-ort]",
    "test_is_fast": "test_it.py::test_is_fast[sd15-thin-unet-on-ort-cpu-at-fp32-by-ort]",
}


@pytest.fixture
def run(pytester, sdperf, monkeypatch):
    pytester.makeconftest(REFUSED)
    pytester.makepyfile(test_it=TESTS)

    def start(*arguments, kind="BuildError", **options):
        monkeypatch.setenv("KIND", kind)
        return sdperf(*ONE, *arguments, **options)

    return start


def report_of(result):
    """Return the report's lines behind its table."""
    lines = result.outlines
    return lines[next(number for number, line in enumerate(lines) if line.startswith("INVALID test_it.py")) :]


@pytest.mark.parametrize("plugins", [(), ("xdist.plugin",)], ids=["alone", "xdist"])
def test_it_is_one_finding_of_all_its_tests_and_no_error_of_a_fixture(run, pytester, plugins):
    result = run("-v", *(["-n1"] if plugins else []), plugins=plugins)
    result.assert_outcomes(failed=4)
    assert result.ret == 10
    reports = json.loads((pytester.path / "out.json").read_text(encoding="utf-8"))["reports"]
    assert {report["nodeid"]: report["problem"] for report in reports} == dict.fromkeys(NAMES.values(), "")
    verdicts = [verdict for report in reports for verdict in report["verdicts"]]
    assert [(one["outcome"], f"{one['sentence']} [{one['code']}]") for one in verdicts] == [("INVALID", SAID)] * 4
    first = NAMES["test_fused"]
    assert result.outlines.count(f"INVALID: {SAID}") == 1
    assert result.outlines.count(f"the same error as at {first}") == 3
    lines = report_of(result)
    assert lines[:4] == [f"INVALID {name}" for name in NAMES.values()]
    assert " ".join(" ".join(lines[4:6]).split()) == SAID
    assert "\n".join(lines).count("group_norm") == 1
    assert not [line for line in result.outlines if "Traceback" in line or line.startswith("ERROR")]


@pytest.mark.parametrize("kind", ["BuildError", "UnsupportedGraphError", "UnsupportedOptionError"])
@pytest.mark.parametrize("name", NAMES)
def test_whatever_the_test_looks_at_it_fails_with_the_verdict(run, kind, name):
    result = run("-k", name, kind=kind)
    result.assert_outcomes(failed=1, deselected=3)
    assert result.ret == 10
    assert sum(line.startswith("INVALID: The ") and line.endswith("[refused]") for line in result.outlines) == 1


def test_an_error_that_says_nothing_of_the_case_stays_one(run):
    result = run("-k", "test_agrees or test_fused", kind="CacheError")
    result.assert_outcomes(failed=1, errors=1, deselected=2)
    assert result.ret == 1


def test_what_the_test_expects_is_its_own(run, pytester):
    pytester.makepyfile(
        test_it="""
        import pytest

        from pytest_sdperf.core.errors import BuildError

        def test_is_refused(runner):
            with pytest.raises(BuildError, match="group_norm"):
                runner.builds()
        """
    )
    result = run()
    result.assert_outcomes(passed=1)
    assert result.ret == 0
