"""`--sdperf-json`: every measurement, agreement and verdict of a run in one file, and how such a file is read."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.facts import check_facts
from pytest_sdperf.baselines.files import write_atomically
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.errors import OptionError, ResultsError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Facts, finite, to_json
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary

SCHEMA: Literal[6] = 6
# What stands for a number that JSON cannot hold.
NOT_FINITE = ("inf", "-inf", "nan")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedResults:
    """The content of the file.

    Attributes:
        schema: Number of the format. It grows when a field changes its meaning or goes; fields may be added.
        date: When the run ended: UTC, to the minute.
        run: Where and how it ran, and which baseline it was judged by.
        summary: What was to be done, and how the tests ended.
        policy: How strictly it was judged; a report has its own, where a test has.
        settings: What the user said; environment variables without their values.
        reports: What every test found out, in their order.
    """

    schema: Literal[6] = SCHEMA
    date: str
    run: RunInfo
    summary: RunSummary
    policy: Policy
    settings: Mapping[str, Any]
    reports: tuple[CaseReport, ...]


def results_of(
    reports: tuple[CaseReport, ...], run: RunInfo, summary: RunSummary, policy: Policy, settings: Settings, *, date: str
) -> SavedResults:
    """Return what is written. A file of its own holds the explanations: they are longer than everything else."""
    saved = []
    for report in reports:
        checks = {name: dataclasses.replace(check, explanation=None) for name, check in report.checks.items()}
        saved.append(dataclasses.replace(report, checks=checks))
    asked = _settings(settings)
    return SavedResults(date=date, run=run, summary=summary, policy=policy, settings=asked, reports=tuple(saved))


def results_data(results: SavedResults) -> dict[str, Any]:
    """Return plain JSON data without private text; numbers that are not finite are texts."""
    clean: dict[str, Any] = privacy.redact(finite(to_json(results)), privacy.identity())
    return clean


def redacted(results: SavedResults) -> SavedResults:
    """Return results as a reader of their file has them: without private text."""
    return strict_json.convert(results_data(results), SavedResults, strict=False)


def write_results(path: Path, results: SavedResults) -> None:
    """Write the file, whole or not at all.

    Raises:
        OptionError: It cannot be written.
    """
    text = json.dumps(results_data(results), indent=1, sort_keys=True, allow_nan=False)
    try:
        write_atomically(path, text + "\n")
    except OSError as error:
        raise OptionError(
            f"cannot write the results to {path}: {error.strerror}. Name a file in a writable folder with "
            f"--sdperf-json=FILE."
        ) from error


def read_results(path: Path) -> SavedResults:
    """Read a file that a run wrote. Fields that this version does not know are passed over.

    Raises:
        ResultsError: It cannot be read, or is not such a file.
    """
    try:
        data = strict_json.read(path)
    except OSError as error:
        raise ResultsError(f"cannot read the results {path}: {error.strerror}. {_WRITE_THEM}") from error
    except ValueError as error:
        raise ResultsError(f"results {path} are not valid JSON: {error}. {_WRITE_THEM}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA or isinstance(schema, bool):
        raise ResultsError(
            f"results {path} have schema {json.dumps(schema)}; this version of pytest-sdperf reads schema {SCHEMA}. "
            f"{_WRITE_THEM}"
        )
    try:
        # Not strict: `nan` stands for a number that JSON cannot hold.
        saved = strict_json.convert(data, SavedResults, strict=False)
        for number, report in enumerate(saved.reports):
            for side, measurement in report.measurements.items():
                where = f"pairs.{side.lower()}" if side else "measurement"
                check_facts(measurement.samples, f"$.reports[{number}].{where}.samples")
            _check_cells(report, f"$.reports[{number}].checks")
    except ValueError as error:
        raise ResultsError(f"results {path} are not complete: {error}. {_WRITE_THEM}") from error
    return saved


def _check_cells(report: CaseReport, place: str) -> None:
    for name, check in report.checks.items():
        for number, row in enumerate(check.rows):
            if check.columns and len(row.cells) != len(check.columns):
                what = f"{plural(len(row.cells), 'cell')} below {plural(len(check.columns), 'heading')}"
                raise ValueError(f"{what} - at `{place}{strict_json.step(name)}.rows[{number}].cells`")


_WRITE_THEM = "Run the tests again with --sdperf-json=FILE, and give that file."


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file."""
    kinds = (SavedResults, Facts)
    (results, facts), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    parts["Sample"]["properties"]["facts"] = facts  # of which a file may hold others, see `StoredFacts`
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **results, "$defs": parts}
    published: dict[str, Any] = _published(schema)
    return published


def schema_text() -> str:
    """Return it as the text of `docs/results.schema.json`."""
    return json.dumps(results_schema(), indent=1, sort_keys=True) + "\n"


def _published(schema: Any) -> Any:
    """Return a schema in which a text may stand for a number, and that is the same whatever release of msgspec made it.

    Releases differ in how they print docstrings, and in which defaults they write.
    """
    if isinstance(schema, list):
        return [_published(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "number":
        schema = {**schema, "type": ["number", "string"], "pattern": f"^({'|'.join(NOT_FINITE)})$"}
    return {name: _keyword(name, item) for name, item in schema.items() if name != "default"}


def _keyword(name: str, value: Any) -> Any:
    if name == "description":
        return inspect.cleandoc(value)
    if name in {"properties", "$defs"}:  # names of ours, which may be words of the schema
        return {own: _published(item) for own, item in value.items()}
    return _published(value)


def _settings(settings: Settings) -> Any:
    """Return the settings without the values of environment variables, which may be secrets."""
    data = to_json(settings)
    for engine in data["selection"]["engines"]:
        engine["env"] = sorted(engine["env"])
    return {**data, "fail_on": sorted(settings.fail_on)}
