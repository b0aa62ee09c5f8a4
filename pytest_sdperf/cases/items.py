"""What pytest's items say about the suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_sdperf.core.values import Case

CASE = "sdperf_case"  # the fixture that has the cases as its parameters; all others that need one ask for it
_FIXTURES_MODULE = "pytest_sdperf.plugin.fixtures.cases"
_CHECKS_MODULE = "pytest_sdperf.plugin.fixtures.checks"


def uses_our_case(item: pytest.Item) -> bool:
    """Whether a test has a case, through whatever fixture of ours, by its long or its short name."""
    return _is_ours(item, CASE)


def uses_our_device(item: pytest.Item) -> bool:
    """Whether a test asks for our device."""
    return _is_ours(item, "sdperf_device")


def _is_ours(item: pytest.Item, fixture: str) -> bool:
    definitions = _definitions(item).get(fixture, ())
    return bool(definitions) and definitions[-1].func.__module__ == _FIXTURES_MODULE


def _definitions(item: pytest.Item) -> Mapping[str, Sequence[Any]]:
    info = getattr(item, "_fixtureinfo", None)  # pytest has no public reader
    return info.name2fixturedefs if info else {}


def checks_of(item: pytest.Item) -> frozenset[str]:
    """Return the names of the registered checks whose fixtures a test asks for, by whatever name."""
    functions = (known[-1].func for known in _definitions(item).values())
    return frozenset(function.sdperf_check for function in functions if function.__module__ == _CHECKS_MODULE)


def case_of(item: pytest.Item) -> Case | None:
    """Return the case of one of our tests; None for anybody else's, and where nothing was left to run."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    case = parameters.get(CASE) if uses_our_case(item) else None
    return case if isinstance(case, Case) else None


def fixtures_of(item: pytest.Item) -> frozenset[str]:
    """Return the names of a test's fixtures, indirect ones included."""
    return frozenset(getattr(item, "fixturenames", ()))


def narrows(config: pytest.Config) -> bool:
    """Whether the command line picks tests in a way that leaves others out while pytest collects."""
    # `--lf` leaves files out, and tells nobody.
    return any("::" in argument for argument in config.args) or bool(config.getoption("lf", default=False))


def is_skipped(item: pytest.Item) -> bool:
    """Whether a test is skipped unconditionally."""
    return item.get_closest_marker("skip") is not None
