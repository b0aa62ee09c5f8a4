"""A run that asked for verdicts and came to none is no success, whatever it asked for and however that was left out."""

from __future__ import annotations

import json

import pytest
from external_folders import make_unet, write
from hypothesis import given
from hypothesis import strategies as st
from our_fixtures import our_fixtures
from sample_values import CASE, compared, measurement

from pytest_sdperf.cases.purposes import of_fixtures
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.report.judged import nothing_lines, why_nothing

# Fixtures that give a test cases; the others alone give it none.
ASKING = sorted({*our_fixtures()} - {f"sdperf_{name}" for name in ("device", "session", "fused", "expected_counts")})
# However a test is left out: by itself, by somebody's fixture, or because nothing of what it is for was asked for.
SKIPPED = {
    "by its mark": ("", "@pytest.mark.skip('not today')", "pass"),
    "by itself": ("", "", "pytest.skip('not today')"),
    "by a fixture": ("today", "", "pass"),
}
FIXTURES = """
    import pytest

    @pytest.fixture
    def today():
        pytest.skip("not today")

    @pytest.fixture
    def agree():
        return None
"""


def nothing(count, what="judged", came="came to a verdict"):
    return f"INVALID nothing was {what}: none of {count} selected tests {came}"


def summary(result):
    """Return the lines of our report."""
    start = next((number for number, line in enumerate(result.outlines) if " sdperf " in line), None)
    return [] if start is None else list(filter(None, result.outlines[start + 1 : -1]))


@pytest.mark.parametrize("fixture", ASKING)
def test_whatever_a_test_asks_for_a_run_that_skips_all_of_it_is_invalid(pytester, sdperf, fixture):
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.skip("not today")
        def test_one({fixture}):
            pass

        @pytest.mark.skip("nor tomorrow")
        def test_two({fixture}):
            pass

        def test_of_somebody_else():
            pass
        """
    )
    result = sdperf("--sdperf-engine=ort-cpu", "--sdperf-component=unet", "--sdperf-optimization=fp16")
    count = result.parseoutcomes()["skipped"]
    assert result.ret == 10
    measured = of_fixtures([fixture]).measures
    first = nothing(count, "measured", "came to it") if measured else nothing(count)
    each = plural(count // 2, "test")
    assert summary(result)[:3] == [first, f"  {each} skipped: not today", f"  {each} skipped: nor tomorrow"]


@pytest.mark.parametrize("how", SKIPPED)
def test_however_all_tests_are_left_out(pytester, sdperf, how):
    fixture, mark, body = SKIPPED[how]
    pytester.makeconftest(FIXTURES)
    asked = ", ".join(filter(None, ["case", "agree", fixture]))
    pytester.makepyfile(f"import pytest\n{mark}\ndef test_it({asked}):\n    {body}\n")
    result = sdperf("--sdperf-engine=ort-cpu", "--sdperf-component=unet", "--sdperf-optimization=fp16,fmha")
    result.assert_outcomes(skipped=2)
    assert (result.ret, summary(result)[:2]) == (10, [nothing(2), "  2 tests skipped: not today"])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--sdperf-component=pipeline"], "a pipeline has no graph of its own; name a component, such as unet"),
        (
            ["--sdperf-component=text_encoder_2"],
            "sd15-thin has no component 'text_encoder_2'; it has text_encoder, unet",
        ),
    ],
)
def test_a_selection_that_leaves_nothing_is_invalid(pytester, sdperf, options, why):
    pytester.makepyfile("def test_it(build, expected_counts, fused):\n    fused(build, expected_counts)\n")
    result = sdperf(*options, "--sdperf-fuser=native", "--sdperf-json=results.json")
    result.assert_outcomes(skipped=1)
    assert result.ret == 10
    lines = summary(result)
    assert lines[0] == nothing(1)
    assert " ".join(" ".join(lines[1:]).split()).startswith(f"1 test skipped: {why}")
    saved = json.loads((pytester.path / "results.json").read_text(encoding="utf-8"))
    assert saved["reports"] == []


def test_graphs_in_folders_that_no_component_is_called_are_named(pytester, sdperf):
    for name in ("denoiser", "text_encoder"):
        write(pytester.path / "given", name, make_unet())
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.sdperf(components=["unet"])
        def test_it(case, expected_counts): pass
        """
    )
    result = sdperf("--sdperf-onnx-dir=given", "--sdperf-engine=ort-cpu", "--sdperf-optimization=fp16")
    result.assert_outcomes(skipped=1)
    lines = summary(result)
    assert (result.ret, lines[0]) == (10, nothing(1))
    assert " ".join(" ".join(lines[1:]).split()).startswith(
        f"1 test skipped: {pytester.path}/given has no unet, which the unet of sd15-thin needs; it has denoiser, "
        "text_encoder. Name each folder as the component is called that it holds"
    )


def test_one_test_that_came_to_its_end_is_something(pytester, sdperf):
    pytester.makeconftest(FIXTURES)
    pytester.makepyfile(
        """
        import pytest

        def test_it(case, agree):
            if case.optimization == "fp16":
                pytest.skip("not today")
        """
    )
    options = ["--sdperf-engine=ort-cpu", "--sdperf-component=unet"]
    result = sdperf(*options, "--sdperf-optimization=fp16,fmha")
    result.assert_outcomes(skipped=1, passed=1)
    assert (result.ret, summary(result)) == (0, [])
    assert sdperf(*options, "--sdperf-optimization=fp16").ret == 10
    assert sdperf(*options, "--sdperf-optimization=fp16", "--collect-only").ret == 0


def test_tests_of_other_people_are_none_of_our_business(pytester, sdperf):
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def case():
            return 1

        @pytest.mark.skip("not today")
        def test_it(case):
            pass
        """
    )
    result = sdperf()
    result.assert_outcomes(skipped=1)
    assert (result.ret, summary(result)) == (0, [])


MEASURED = CaseReport("a::speed", CASE, measurement())
RIGHT = Agreement("component", "relative-l2", 1e-4, 1e-4, 2e-4, "float16", "float32")
COMPARED = compared("a::agrees", CASE, RIGHT)
EMPTY = CaseReport("a::empty", CASE)
reports = st.lists(
    st.one_of(
        st.sampled_from([MEASURED, COMPARED, EMPTY]),
        st.sampled_from(Outcome).map(
            lambda outcome: CaseReport("a::told", CASE, verdicts=(Verdict(outcome, "code", "Told.", "counts"),))
        ),
    )
)


@given(reports=reports, measuring=st.integers(0, 3))
def test_every_verdict_but_not_measured_is_one(reports, measuring):
    told = [one for one in reports if one != EMPTY and one.outcome is not Outcome.NOT_MEASURED]
    expected = bool(told) if not measuring else MEASURED in reports
    assert (why_nothing(reports, measuring=measuring, asked=5) == "") is expected


def test_many_reasons_are_counted():
    why = why_nothing([], measuring=0, asked=0)
    assert why == "nothing was judged: no test of the run came to a verdict"
    lines = nothing_lines(why, ["d", "a", "b", "a\nmore", "c", "e"], width=80)
    assert [line.text for line in lines] == [
        "INVALID nothing was judged: no test of the run came to a verdict",
        "  2 tests skipped: a",
        "  1 test skipped: d",
        "  1 test skipped: b",
        "  2 tests skipped for other reasons: see pytest -rs",
    ]
