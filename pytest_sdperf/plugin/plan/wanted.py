"""What the selected tests want to know about their cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from pytest_sdperf.cases.items import case_of, is_skipped, uses_our_case
from pytest_sdperf.cases.purposes import purpose_of
from pytest_sdperf.core.values import Case


@dataclass(frozen=True)
class PlannedCase:
    """A case and what tests do with it.

    Attributes:
        id: The case as test ids spell it.
        case: The case.
        tests: What they find out, `run` or `build`: see `pytest_sdperf.cases.purposes`.
    """

    id: str
    case: Case
    tests: tuple[str, ...]


def wanted_of(item: pytest.Item) -> PlannedCase | None:
    """Return what a test wants; None where it is about no case, or is skipped."""
    case = case_of(item)
    if case is None or is_skipped(item):
        return None
    callspec = item.callspec  # type: ignore[attr-defined]  # a test of a case is parametrized
    return PlannedCase(str(callspec.id), case, purpose_of(item).told)


def reason_of_skip(item: pytest.Item) -> str:
    """Return why a test of a case is skipped; empty where it is not, or is about something else."""
    marker = item.get_closest_marker("skip")
    if marker is None or not uses_our_case(item):
        return ""
    return str(marker.kwargs.get("reason") or (marker.args[0] if marker.args else "it says so"))


def merged(wanted: Iterable[PlannedCase]) -> list[PlannedCase]:
    """Return one entry per case, with everything that some test does with it."""
    found: dict[Case, PlannedCase] = {}
    for one in wanted:
        before = found.setdefault(one.case, one)
        tests = tuple(dict.fromkeys((*before.tests, *one.tests)))
        found[one.case] = replace(before, tests=tests)
    return list(found.values())
