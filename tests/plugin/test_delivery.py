"""A verdict is delivered when its test ends: what the test asserts comes first, and no skip takes others with it."""

from __future__ import annotations

import json

import pytest
import scipy.stats  # noqa: F401 - pytest runs inside this process, which can load numpy only once

from pytest_sdperf.plugin.reporter import NOT_DELIVERED

# Measures without a worker process, gets the verdict that OUTCOME names, and finds nothing to compare with.
PLAYED = """
    import os
    from types import SimpleNamespace

    import pytest
    from sample_values import measurement

    from pytest_sdperf.checks.agreement import check as agreement
    from pytest_sdperf.checks.precision import check as precision
    from pytest_sdperf.checks.semantics import check as semantics
    from pytest_sdperf.core.errors import NoReferenceError, OutOfMemoryError
    from pytest_sdperf.plugin.fixtures import measurements
    from pytest_sdperf.checks.replay import repeats
    from pytest_sdperf.plugin.session import Session
    from pytest_sdperf.core.values.outcomes import Outcome, Verdict

    def measure(runner, **_):
        none = {"first": None, "second": None, "source": ""}
        return measurement(case=runner.case, counts={}, **none)

    def judge(self, measurement, *, policy):
        return (Verdict(Outcome[os.environ.get("OUTCOME", "HELD")], "a-code", "It is so.", "latency"),)

    def nothing(*args, **_):
        if os.environ.get("MEMORY"):
            raise OutOfMemoryError("17 GB")
        raise NoReferenceError("nothing to compare with")

    @pytest.fixture(autouse=True)
    def played(monkeypatch):
        monkeypatch.setattr(measurements, "measure", measure)
        monkeypatch.setattr(Session, "calibration", lambda self, case: None)
        monkeypatch.setattr(Session, "judge", judge)
        monkeypatch.setattr(agreement, "agree", nothing)
        monkeypatch.setattr(precision, "not_applicable", lambda runner, dtype: "")
        monkeypatch.setattr(precision, "torch_drift", nothing)
        monkeypatch.setattr(semantics, "look", nothing)
        monkeypatch.setattr(repeats, "repeat", nothing)

    @pytest.fixture
    def runner(case):
        builder = SimpleNamespace(external=None, reference=None)
        settings = SimpleNamespace(prompts=8, repeats=2)
        bench = SimpleNamespace(device=SimpleNamespace(kind="cpu"), builder=builder, settings=settings)
        return SimpleNamespace(case=case, builds=dict, has_outputs=False, context=bench)

    @pytest.fixture
    def measured(runner, bench):
        return bench(runner)

    @pytest.fixture
    def measured_and_skipped(measured):
        pytest.skip("not today")

    @pytest.fixture
    def measured_late(runner, bench):
        yield
        bench(runner)
"""
ONE = ["--sdperf-engine=torch", "--sdperf-component=unet", "--sdperf-optimization=fp32", "--sdperf-state-dir=state"]
# Verdict -> how its test ends, and the run.
ENDS = {
    "HELD": ("passed", 0),
    "IMPROVED": ("passed", 0),
    "NEW": ("passed", 0),
    "GAP": ("passed", 0),
    "NOT_MEASURED": ("skipped", 0),
    "INCONCLUSIVE": ("skipped", 0),
    "INVALID": ("failed", 10),
    "REGRESSED": ("failed", 1),
}
SAID = "It is so. [a-code]"
# Fixture -> how a test calls it, and what it is left out as.
CHECKS = {
    "agree": ("agree(runner)", "agreement"),
    "drift": ("drift(runner, 'float16')", "drift"),
    "pictures": ("pictures(runner)", "pictures"),
    "replay": ("replay(runner)", "replay"),
}


@pytest.fixture
def run(pytester, sdperf, monkeypatch):
    pytester.makeconftest(PLAYED)

    def start(body, *arguments, outcome="HELD", fixtures="runner, bench", mark=""):
        monkeypatch.setenv("OUTCOME", outcome)
        lines = "\n".join(f"    {line}" for line in body)
        pytester.makepyfile(test_it=f"import pytest\n\n{mark}\ndef test_it({fixtures}):\n{lines}\n")
        return sdperf(*ONE, "-rs", *arguments)

    return start


def reasons(result):
    """Return the reason of the one test that was skipped, line by line."""
    start = next(number for number, line in enumerate(result.outlines) if line.startswith("SKIPPED [1] "))
    text = "\n".join(result.outlines[start:-1])
    return text.split(": ", 1)[1]


@pytest.mark.parametrize("outcome", ENDS)
def test_what_a_test_asserts_comes_before_every_verdict(run, outcome):
    result = run(["bench(runner)", "assert not 'a word of its own'"], outcome=outcome)
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    text = result.stdout.str()
    assert "AssertionError: assert not 'a word of its own'" in text
    delivered = ENDS[outcome][0] != "passed"
    assert (NOT_DELIVERED in text) is delivered
    assert result.outlines.count(f"{outcome.replace('_', ' ')}: {SAID}") == delivered


@pytest.mark.parametrize("outcome", ENDS)
@pytest.mark.parametrize(("body", "fixtures"), [(["bench(runner)"], "runner, bench"), (["pass"], "measured")])
def test_a_test_that_asserts_nothing_else_ends_as_its_verdict_says(run, outcome, body, fixtures):
    result = run(body, outcome=outcome, fixtures=fixtures)
    how, status = ENDS[outcome]
    result.assert_outcomes(**{how: 1})
    assert result.ret == status
    if how == "skipped":
        assert reasons(result) == f"{outcome.replace('_', ' ')}: {SAID}"


@pytest.mark.parametrize("outcome", ENDS)
@pytest.mark.parametrize(
    ("body", "fixtures"),
    [(["bench(runner)", "pytest.skip('not today')"], "runner, bench"), (["pass"], "measured_and_skipped")],
)
def test_a_test_that_skips_itself_hides_nothing_that_fails(run, outcome, body, fixtures):
    result = run(body, outcome=outcome, fixtures=fixtures)
    if ENDS[outcome][0] == "failed":
        result.assert_outcomes(**{"failed" if fixtures == "runner, bench" else "errors": 1})
        assert f"{outcome}: {SAID}" in result.outlines
        assert result.ret == ENDS[outcome][1]
    else:
        result.assert_outcomes(skipped=1)
        assert reasons(result) == "not today"


@pytest.mark.parametrize(("outcome", "ends"), [("HELD", {}), ("REGRESSED", {"errors": 1}), ("GAP", {})])
def test_what_is_measured_while_a_test_is_taken_down_is_delivered_then(run, outcome, ends):
    run(["pass"], outcome=outcome, fixtures="measured_late").assert_outcomes(passed=1, **ends)


@pytest.mark.parametrize("outcome", ["INCONCLUSIVE", "REGRESSED"])
def test_an_expected_failure_is_one_whatever_the_verdict(run, outcome):
    result = run(["bench(runner)", "assert False"], outcome=outcome, mark="@pytest.mark.xfail")
    result.assert_outcomes(xfailed=1)
    assert result.ret == 0


@pytest.mark.parametrize("fixture", CHECKS)
def test_what_cannot_be_looked_at_takes_no_speed_with_it(run, pytester, fixture):
    call, look = CHECKS[fixture]
    result = run([call, "bench(runner)"], "--sdperf-json=out.json", fixtures=f"runner, bench, {fixture}")
    result.assert_outcomes(skipped=1)
    assert result.ret == 0
    (report,) = json.loads((pytester.path / "out.json").read_text(encoding="utf-8"))["reports"]
    assert [verdict["outcome"] for verdict in report["verdicts"]] == ["HELD"]
    assert list(report["left_out"]) == [look]
    name = "test_it.py::test_it[sd15-thin-unet-on-torch-at-fp32]"
    assert f"LEFT OUT the {look} of {name}" in result.outlines
    title = next(number for number, line in enumerate(result.outlines) if line.strip("= ") == "sdperf")
    assert result.outlines[title + 1] == "verdicts of 1 case: 1 HELD"
    assert reasons(result) == "nothing to compare with"


@pytest.mark.parametrize("fixture", CHECKS)
def test_a_test_that_looks_at_nothing_else_is_skipped_at_once(run, fixture):
    result = run([call := CHECKS[fixture][0], f"assert False, {call!r}"], fixtures=f"runner, {fixture}")
    result.assert_outcomes(skipped=1)
    assert result.ret == 10


@pytest.mark.parametrize("fixture", sorted(CHECKS))
def test_a_comparison_without_memory_takes_no_speed_with_it(run, pytester, monkeypatch, fixture):
    monkeypatch.setenv("MEMORY", "short")
    result = run([CHECKS[fixture][0], "bench(runner)"], "--sdperf-json=out.json", fixtures=f"runner, bench, {fixture}")
    result.assert_outcomes(skipped=1)
    (report,) = json.loads((pytester.path / "out.json").read_text(encoding="utf-8"))["reports"]
    assert [verdict["outcome"] for verdict in report["verdicts"]] == ["INCONCLUSIVE", "HELD"]
    assert reasons(result) == "INCONCLUSIVE: Memory ran out, so nothing was compared: 17 GB [out-of-memory]"


def test_a_regression_is_not_hidden_by_what_was_left_out(run):
    result = run(["agree(runner)", "bench(runner)"], outcome="REGRESSED", fixtures="runner, bench, agree")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    assert f"REGRESSED: {SAID}" in result.outlines
