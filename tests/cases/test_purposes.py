"""What fixtures say about a test: one table that everything reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.purposes import CHECKS, PURPOSES, of_fixtures
from pytest_sdperf.plugin.fixtures import cases, measurements

PACKAGE = Path(cases.__file__).parents[2]
names = st.frozensets(st.sampled_from(sorted(PURPOSES)))


def test_every_fixture_has_one_purpose_and_nothing_else_has():
    defined = {name for module in (cases, measurements) for name in vars(module) if name.startswith("sdperf_")}
    assert set(PURPOSES) == defined


def test_no_other_module_looks_at_the_names_of_fixtures():
    """A second table would disagree with the first one some day."""
    readers = {path.name for path in PACKAGE.rglob("*.py") if "fixtures_of" in path.read_text(encoding="utf-8")}
    assert readers == {"items.py", "purposes.py"}


@pytest.mark.parametrize(
    ("used", "told", "measures"),
    [
        ({"sdperf_case", "sdperf_runner", "sdperf_bench"}, ("speed",), True),
        ({"sdperf_case", "sdperf_build", "sdperf_expected_counts", "sdperf_fused"}, ("counts",), False),
        ({"sdperf_case", "sdperf_runner"}, ("run",), False),
        ({"sdperf_case", "sdperf_build"}, ("build",), False),
        ({"sdperf_case", "somebody_elses"}, ("build",), False),
    ],
)
def test_a_test_is_for_what_its_fixtures_are_for(used, told, measures):
    purpose = of_fixtures(used)
    assert (purpose.told, purpose.measures) == (told, measures)


@given(names, names)
def test_more_fixtures_are_never_for_less(some, others):
    whole, parts = of_fixtures(some | others), (of_fixtures(some), of_fixtures(others))
    assert whole == parts[0] | parts[1]
    order = [None, *Axes]
    assert order.index(whole.axes) == max(order.index(part.axes) for part in parts)
    assert whole.checks == parts[0].checks | parts[1].checks
    for field in ("builds", "executes", "needs_device"):
        assert getattr(whole, field) == any(getattr(part, field) for part in parts)


@pytest.mark.parametrize("purpose", PURPOSES.values())
def test_what_runs_needs_its_device_and_what_is_timed_runs(purpose):
    assert purpose.needs_device or not purpose.executes
    assert purpose.executes or not purpose.measures
    assert purpose.checks <= set(CHECKS)
