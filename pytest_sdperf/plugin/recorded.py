"""What a test found out, on pytest's report of it: an object in one process, JSON between those of pytest-xdist."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

import pytest

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json

ATTRIBUTE = "sdperf"  # of pytest's report of a test


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a test found out, and whether a verdict is why it failed. It hangs on pytest's report of the test."""

    report: CaseReport
    by_verdict: bool


class Serializer:
    """What pytest-xdist and others write of a report is JSON: what hangs on it becomes that, and is read again."""

    @staticmethod
    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        """Turn what a test found out into JSON data."""
        data = yield
        if data is not None and ATTRIBUTE in data:
            data[ATTRIBUTE] = to_json(data[ATTRIBUTE])
        return data

    @staticmethod
    @pytest.hookimpl(wrapper=True)
    def pytest_report_from_serializable() -> Generator[None, object, object]:
        """Read what a test found out."""
        report = yield
        recorded = getattr(report, ATTRIBUTE, None)
        if recorded is not None:
            report.sdperf = convert(recorded, Recorded)  # type: ignore[attr-defined]
        return report
