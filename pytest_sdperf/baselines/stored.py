"""Baselines: the raw samples of earlier sessions, one file per device, and how such a file is read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from pytest_sdperf.baselines.facts import check_facts
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.machine.health import differing_keys
from pytest_sdperf.core.values import Case, Sample
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.metric import MetricInfo

SCHEMA = 2
SESSIONS_KEPT = 10
DRIVER = "driver"

Machine = Mapping[str, str | int | float | None]


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One accepted measurement: what was measured, on which day, of which subject.

    Attributes:
        date: UTC, to the minute.
        commit: Commit of the project under test; empty if unknown.
        subject: Versions and settings of what was tested.
        samples: One per process; empty after a failure.
        failure: `oom`, or empty.
        graph_hashes: Component -> hash of the graph that ran.
        counts: Component -> `domain::op_type` -> nodes.
        artifacts: Component -> what was loaded: sizes, and what building took.
        changed: Metrics that reached a new level here: older sessions no longer say what is normal for them.
        reason: Why a regression, another driver, or a change that could not be told was accepted.
        calibration: What the device itself did on that day; None if nobody measured it.
        metrics: Metric of a plug-in -> how its numbers are judged.
        clocks_locked: Whether a setting held the clocks of a GPU down; None where nobody could tell.
        driver: Under which it was measured, where that is not the one of its file.
        policy: How strictly its run judged it. Only a candidate has it: it is judged by it once more.
        command: What measures it again; only a candidate has it.
        of_last_run: Whether the last run of its project measured it; only a candidate has it.
    """

    date: str
    commit: str = ""
    subject: dict[str, str] = {}
    samples: tuple[Sample, ...] = ()
    failure: str = ""
    graph_hashes: dict[str, str] = {}
    counts: dict[str, dict[str, int]] = {}
    artifacts: dict[str, Artifact] = {}
    changed: tuple[str, ...] = ()
    reason: str = ""
    calibration: Calibration | None = None
    metrics: dict[str, MetricInfo] = {}
    clocks_locked: bool | None = None
    driver: str | int | float | msgspec.UnsetType | None = msgspec.UNSET
    policy: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    command: str | msgspec.UnsetType = msgspec.UNSET
    of_last_run: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def out_of_memory(self) -> bool:
        """Whether the device ran out of memory."""
        return self.failure == "oom"


class StoredCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything stored about one case.

    Attributes:
        case: Its identity.
        anchor: The first session: a fixed point against slow drift, replaced only when asked to.
        sessions: The last sessions, in the order in which they were accepted.
    """

    case: Case
    anchor: Session
    sessions: tuple[Session, ...]

    @property
    def last(self) -> Session:
        """The newest session."""
        return self.sessions[-1]

    def level(self, metric: str) -> tuple[Session, ...]:
        """Return the sessions since `metric` last reached a new level, as they were accepted."""
        start = max((i for i, session in enumerate(self.sessions) if metric in session.changed), default=0)
        return self.sessions[start:]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file.

    Attributes:
        machine: Machine keys under which everything in it was measured.
        cases: `Case.key` -> stored case.
    """

    machine: dict[str, str | int | float | None]
    cases: dict[str, StoredCase] = {}


def stored_of(
    baseline: Baseline | None, case: Case, machine: Machine
) -> tuple[StoredCase | None, dict[str, tuple[Any, Any]]]:
    """Return what is stored of a case, and the machine keys in which that machine differs from another one."""
    stored = baseline.cases.get(case.key) if baseline else None
    return stored, differing_keys(machine_of(baseline, stored.last), machine) if baseline and stored else {}


def machine_of(baseline: Baseline, session: Session) -> Machine:
    """Return the machine keys of a session: those of its file, under the driver of its own."""
    own = {} if session.driver is msgspec.UNSET else {DRIVER: session.driver}
    return {**baseline.machine, **own}


def file_of(folder: Path, slug: str) -> Path:
    """Return the path of a device's file."""
    return folder / f"{slug}.json"


def read(path: Path) -> Baseline | None:
    """Read one file; None where there is none. Never writes.

    Raises:
        BaselineError: The file cannot be read, is not JSON, has another schema or another structure.
    """
    try:
        data = strict_json.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(f"cannot read baseline file {path}: {error.strerror}. Make it readable.") from error
    except ValueError as error:
        _refuse(path, f"is not valid JSON: {error}")
    return _structure(path, _of_schema(path, data))


def _of_schema(path: Path, data: Any) -> dict[str, Any]:
    """Return the content of a file without its schema, under the names of the present one."""
    if not isinstance(data, dict):
        _refuse(path, "does not hold a JSON object")
    schema = data.pop("schema", None)
    if schema not in (1, SCHEMA) or isinstance(schema, bool):
        raise BaselineError(
            f"baseline file {path} has schema {json.dumps(schema)}; this version of pytest-sdperf reads schema 1 and "
            f"{SCHEMA}. Install the version that wrote it, or move the file away and record it again with "
            f"--sdperf-update-baselines."
        )
    return from_schema_1(data) if schema == 1 else data


def _structure(path: Path, data: dict[str, Any]) -> Baseline:
    """Turn JSON data into values; every error names the place in the data."""
    unknown = sorted(set(data) - {"machine", "cases"})
    if unknown:
        _refuse(path, f"is not a baseline: unknown field {unknown[0]!r} - at `$`")
    if "cases" not in data or not isinstance(data["cases"], dict):
        _refuse(path, "is not a baseline: `cases` must be an object - at `$`")
    machine = _convert(path, "$.machine", data.get("machine"), dict[str, str | int | float | None])
    cases = {key: _stored_case(path, key, stored) for key, stored in data["cases"].items()}
    return Baseline(machine=machine, cases=cases)


def _stored_case(path: Path, key: str, data: Any) -> StoredCase:
    place = f'$.cases["{key}"]'
    stored: StoredCase = _convert(path, place, data, StoredCase)
    if stored.case.key != key:
        _refuse(path, f"is not a baseline: the case at `{place}` is the case {stored.case.key!r}")
    if not stored.sessions:
        _refuse(path, f"is not a baseline: no session - at `{place}.sessions`")
    _check_samples(path, f"{place}.anchor", stored.anchor)
    for i, one in enumerate(stored.sessions):
        _check_samples(path, f"{place}.sessions[{i}]", one)
    _only_known(path, f"{place}.case", data["case"], Case)
    sessions = [(f"{place}.anchor", data["anchor"])]
    sessions += [(f"{place}.sessions[{i}]", session) for i, session in enumerate(data["sessions"])]
    for where, session in sessions:
        if not any(session.get(name) for name in ("samples", "failure", "counts")):
            _refuse(path, f"is not a baseline: a session without samples, failure or counts - at `{where}`")
        _only_known(path, f"{where}.calibration", session.get("calibration") or {}, Calibration)
        for name, artifact in session.get("artifacts", {}).items():
            _only_known(path, f"{where}.artifacts.{name}", artifact, Artifact)
            for i, step in enumerate(artifact.get("steps", ())):
                _only_known(path, f"{where}.artifacts.{name}.steps[{i}]", step, BuildStep)
        for i, sample in enumerate(session.get("samples", ())):
            _only_known(path, f"{where}.samples[{i}]", sample, Sample)
    return stored


def _check_samples(path: Path, place: str, session: Session) -> None:
    """Refuse times that no run can take, and facts of another type than the one that is judged."""
    for i, sample in enumerate(session.samples):
        bad = [time for time in sample.iterations_s if time <= 0]
        if bad or not sample.iterations_s:
            what = f"a time of {bad[0]:g} s, which no run can take" if bad else "a sample without times"
            _refuse(path, f"is not a baseline: {what} - at `{place}.samples[{i}].iterations_s`")
    try:
        check_facts(session.samples, f"{place}.samples")
    except ValueError as error:
        _refuse(path, f"is not a baseline: {error}")


def _convert(path: Path, place: str, data: Any, kind: Any) -> Any:
    try:
        return strict_json.convert(data, kind)
    except ValueError as error:
        what, _, where = str(error).partition(" - at `$")
        _refuse(path, f"is not a baseline: {what} - at `{place}{where or '`'}")


def _only_known(path: Path, place: str, data: Mapping[str, Any], kind: type) -> None:
    """Refuse fields that a dataclass does not have (msgspec forbids them in its own structs only)."""
    for name in sorted(set(data) - {field.name for field in dataclasses.fields(kind)}):
        _refuse(path, f"is not a baseline: unknown field {name!r} - at `{place}`")


def _refuse(path: Path, why: str) -> NoReturn:
    raise BaselineError(
        f"baseline file {path} {why}. Nothing was written to it. Restore it from version control "
        f"(git checkout -- {path.name}), or move it away and record it again with --sdperf-update-baselines."
    )


_NAMES: dict[str, str] = {"floating": "dtype", "vae_floating": "vae_dtype"}
_GIVEN, _EXTERNAL = "given", "external"


def from_schema_1(data: Any) -> Any:
    """Return the content of a file of schema 1 under the names of schema 2: dtypes, and graphs exported elsewhere."""
    if isinstance(data, list):
        return [from_schema_1(one) for one in data]
    if not isinstance(data, dict):
        return data
    renamed = {current_key(_NAMES.get(str(name), str(name))): from_schema_1(value) for name, value in data.items()}
    if renamed.get("exporter") == _GIVEN:
        renamed["exporter"] = _EXTERNAL
    return renamed


def current_key(key: str) -> str:
    """Return the key of a case as this version writes it."""
    return key.replace(f" exporter={_GIVEN} ", f" exporter={_EXTERNAL} ")
