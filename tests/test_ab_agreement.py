"""Of an A/B both sides are compared with torch: what is recorded, shown and said. What they compute is played."""

from __future__ import annotations

import json

import pytest
from sample_values import case

from pytest_sdperf.report.agreements import agreement_lines
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.values.outcomes import Agreement

CONFTEST = """
    from types import SimpleNamespace

    import pytest

    from pytest_sdperf.fixtures import agreements
    from pytest_sdperf.values.located import Located
    from pytest_sdperf.values.outcomes import Agreement
    from pytest_sdperf.running.session import Session

    ERRORS = {errors}

    def agree(runner):
        error = ERRORS[runner.case.engine]
        return (Agreement("component", "relative-l2", error, 1e-3, 2e-3, "float32", "float64", "sample[0]"),)

    @pytest.fixture(autouse=True)
    def played(monkeypatch):
        monkeypatch.setattr(agreements.agreements, "agree", agree)
        monkeypatch.setattr(Session, "other_runner", lambda self, other: SimpleNamespace(case=other.case))

    @pytest.fixture
    def runner(case):
        return SimpleNamespace(case=case)
"""
TEST = """
    import pytest

    @pytest.mark.sdperf(components="unet", optimizations="fp32")
    def test_right(runner, agree):
        assert [one.side for one in agree(runner)] == {sides}
"""
RIGHT, WRONG = 1.5e-3, 3e-3


@pytest.fixture
def agreed(pytester, sdperf):
    def run(a, b, *arguments, sides=("A", "B")):
        pytester.makeconftest(CONFTEST.format(errors={"torch": a, "ort-cpu": b}))
        pytester.makepyfile(test_mine=TEST.format(sides=list(sides)))
        usual = ("--sdperf-engine=torch", "--sdperf-state-dir=state", "--sdperf-json=out.json", "--sdperf-locate=off")
        return sdperf(*usual, *arguments)

    return run


@pytest.mark.parametrize(("a", "b", "failing"), [(RIGHT, RIGHT, ""), (RIGHT, WRONG, "B"), (WRONG, RIGHT, "A")])
def test_both_sides_have_to_agree(agreed, pytester, a, b, failing):
    result = agreed(a, b, "--sdperf-ab-engine=ort-cpu")
    assert result.ret == bool(failing)
    (report,) = json.loads((pytester.path / "out.json").read_text())["reports"]
    assert [(one["side"], one["error"]) for one in report["agreements"]] == [("A", a), ("B", b)]
    assert (report["case"]["engine"], report["other"]["engine"]) == ("torch", "ort-cpu")
    rows = [line.split()[0:4] for line in result.outlines if line.startswith(("  A: ", "  B: "))]
    assert [(row[0], row[1]) for row in rows] == [("A:", "sd15-thin"), ("B:", "sd15-thin")]
    said = (
        f"Side {failing}: The component has a relative L2 error 3.00e-03 against torch float64; plain torch float32 "
        f"has 1.00e-03, so at most 2.00e-03 passes; the worst element is sample[0]."
    )
    assert any(line.endswith(said) for line in result.outlines) is bool(failing)


def test_without_a_second_side_there_is_no_side(agreed, pytester):
    assert agreed(RIGHT, WRONG, sides=("",)).ret == 0
    (report,) = json.loads((pytester.path / "out.json").read_text())["reports"]
    assert (report["other"], [one["side"] for one in report["agreements"]]) == (None, [""])


def test_sides_that_do_not_differ_are_refused_before_the_first_test(agreed):
    result = agreed(RIGHT, RIGHT, "--sdperf-ab-engine=torch")
    assert result.ret == 4
    assert result.errlines[0] == (
        "ERROR: both sides of the A/B are the same: sd15-thin-unet-on-torch-at-fp32. Name another interpreter with "
        "--sdperf-ab=PYTHON, or another build with --sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
    )


def test_rows_name_the_side_and_what_it_ran():
    def one(side, level="component", metric="relative-l2", error=1e-3):
        return Agreement(level, metric, error, 1e-3, 2e-3, "float16", "float32", "sample[0]", side=side)

    of = case(component="pipeline", fuser="")
    found = (one("A", "image"), one("A", "image", "ssim"), one("B", "image"), one("B", "image", "ssim", error=3e-3))
    report = CaseReport("t", of, agreements=found, other=case(component="pipeline", engine="torch", fuser=""))
    lines = [(line.text, line.styles) for line in agreement_lines([report], width=100)]
    assert lines[:5] == [
        ("agreement                                      error     limit  of limit", ("bold",)),
        ("  A: sd15-thin pipeline image fp16 ort-cpu  1.00e-03  2.00e-03      50 %", ()),
        ("    SSIM 0.999 (at least 0.998)", ()),
        ("  B: sd15-thin pipeline image fp16 torch    1.00e-03  2.00e-03      50 %", ("red",)),
        ("    FAILS, SSIM 0.997 (at least 0.998)", ("red",)),
    ]
    assert CaseReport.from_json(json.loads(json.dumps(report.to_json()))) == report
