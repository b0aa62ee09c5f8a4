"""`--sdperf-explain`: where each operator of a build was expected, and for each place without it why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.files import write_atomically
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.check import CheckReport
from pytest_sdperf.fusing.explain import Explanation

SCHEMA = 1
OPTION = "--sdperf-explain"


def explanations_data(reports: Sequence[CaseReport], *, command: str, date: str) -> dict[str, Any]:
    """Return the content of the file: plain JSON data without private text."""
    cases = [_case(report, check) for report, check in _explained(reports)]
    data = {"schema": SCHEMA, "date": date, "command": command, "cases": cases}
    clean: dict[str, Any] = privacy.redact(data, privacy.identity())
    return clean


def _explained(reports: Sequence[CaseReport]) -> list[tuple[CaseReport, CheckReport]]:
    """Return each check that explains what it found, with its report."""
    return [(report, one) for report in reports for one in report.checks.values() if one.explanation is not None]


def _case(report: CaseReport, check: CheckReport) -> dict[str, Any]:
    explanation = convert(check.explanation, Explanation)
    verdicts = [{"outcome": one.outcome.value, "code": one.code, "sentence": one.sentence} for one in report.verdicts]
    return {
        "test": report.nodeid,
        "case": to_json(report.case),
        "verdicts": verdicts,
        "counts": check.finding["counts"],
        **to_json(explanation),
        "fused": explanation.fused,
    }


def write_explanations(path: Path, reports: Sequence[CaseReport], *, command: str, date: str) -> str:
    """Write the file, whole or not at all; return a sentence about what is in it.

    Raises:
        OptionError: It cannot be written.
    """
    text = json.dumps(explanations_data(reports, command=command, date=date), indent=1, sort_keys=True)
    try:
        write_atomically(path, text + "\n")
    except OSError as error:
        raise OptionError(
            f"cannot write the explanation to {path}: {error.strerror}. Name a file in a writable folder with "
            f"{OPTION}=FILE."
        ) from error
    found = _explained(reports)
    missing = sum(len(check.explanation["unfused"]) for _, check in found)
    return f"{path} explains {plural(len(found), 'build')}: {plural(missing, 'operator')} not fused where expected."
