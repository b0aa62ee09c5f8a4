"""`--sdperf-json`: every measurement, agreement and verdict of a run in one file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.files import write_atomically
from pytest_sdperf.errors import OptionError
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.floors import reached
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.settings import Settings
from pytest_sdperf.values import finite, to_json

SCHEMA = 1


def results_data(reports: Sequence[CaseReport], run: RunInfo, settings: Settings, *, date: str) -> dict[str, Any]:
    """Return the content of the file: plain JSON data without private text; numbers that are not finite are texts."""
    data = {
        "schema": SCHEMA,
        "date": date,
        "run": to_json(run),
        "settings": _settings(settings),
        "reports": [_report(report) for report in reports],
    }
    clean: dict[str, Any] = privacy.redact(finite(data), privacy.identity())
    return clean


def _report(report: CaseReport) -> dict[str, Any]:
    # A file of its own holds the explanations: they are many times longer than everything else.
    data = dataclasses.replace(report, explanation=None).to_json()
    return {**data, "reached": reached(report.measurement) if report.measurement else None}


def write_results(path: Path, reports: Sequence[CaseReport], run: RunInfo, settings: Settings, *, date: str) -> None:
    """Write the file, whole or not at all.

    Raises:
        OptionError: It cannot be written.
    """
    text = json.dumps(results_data(reports, run, settings, date=date), indent=1, sort_keys=True, allow_nan=False)
    try:
        write_atomically(path, text + "\n")
    except OSError as error:
        raise OptionError(
            f"cannot write the results to {path}: {error.strerror}. Name a file in a writable folder with "
            f"--sdperf-json=FILE."
        ) from error


def _settings(settings: Settings) -> Any:
    """Return the settings without the values of environment variables, which may be secrets."""
    data = to_json(settings)
    for engine in data["selection"]["engines"]:
        engine["env"] = sorted(engine["env"])
    return {**data, "fail_on": sorted(settings.fail_on)}
