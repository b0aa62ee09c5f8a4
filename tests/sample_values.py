"""Values that the tests of verdicts, baselines and reports build their scenes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.checks.ab.pairs import of_sides
from pytest_sdperf.checks.agreement.check import Agrees
from pytest_sdperf.checks.fusions.target import EVERY_PLACE, Operators
from pytest_sdperf.checks.judging.checks import judged
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values import Build, Case, Failure, Measurement, Sample, to_json
from pytest_sdperf.core.values.check import CheckReport, Counted
from pytest_sdperf.fusing.explain import Explanation
from pytest_sdperf.tasks._execution import Execution, Part

CASE = Case(
    "sd15-thin", "unet", "ort-cpu", "fp16", fuser="ort", exporter="dynamo", opset=18, shapes="static",
    height=128, width=128,
)  # fmt: skip
MB = 2**20
COUNTS = {"unet": {"::Conv": 98, "::Add": 70, "com.microsoft::SkipLayerNormalization": 32}}
SUBJECT = {"onnxruntime": "1.31.1"}


def case(**fields: Any) -> Case:
    return dataclasses.replace(CASE, **fields)


def compared(nodeid: str, of: Case, *agreements: Any, verdicts: Any = (), **fields: Any) -> CaseReport:
    """Return what a test found out that compared a case with its reference."""
    return compared_sides(nodeid, of, {"": agreements}, verdicts=verdicts, **fields)


def compared_sides(
    nodeid: str, of: Case, sides: Mapping[str, Any], *, check: Any = None, verdicts: Any = (), **fields: Any
) -> CaseReport:
    """Return the same of sides of an A/B: side -> agreements, or what another check found."""
    check = check or Agrees()
    told = {side: judged(check, found, of, policy=Policy(), owner="us") for side, found in sides.items()}
    report, its_own = of_sides(told)
    return CaseReport(nodeid, of, verdicts=(*verdicts, *its_own), checks={check.name: report}, **fields)


def operators(counts: Mapping[str, int], expected: Mapping[str, int], **fields: Any) -> Operators:
    """Return what a build holds, of what it can hold."""
    usual = {"budgets": {}, "allowed": expected, "most": {}, "float32_products": {}, "allowed_by": "torch module"}
    told = {"external": False, "standing": None, "explanation": Explanation(), "every_place": EVERY_PLACE}
    return Operators(counts, expected, **{**usual, **told, **fields})


def known(counts: Mapping[str, int], older: str = "") -> Counted:
    """Return what a baseline has of a build."""
    return Counted("fusions/onnxruntime-1.32.json", "its key", counts, older)


def fused(
    counts: Mapping[str, int], expected: Mapping[str, int], *, explanation: Any = None, counted: Counted | None = None
) -> dict[str, CheckReport]:
    """Return what a check of fusions found."""
    finding = to_json(operators(counts, expected, explanation=None))
    return {"fusions": CheckReport("fusions", finding, counted=counted, explanation=to_json(explanation))}


def execution(*parts: str, component: str = "unet", **fields: Any) -> Execution:
    """Return what a worker is told of a case: each of `parts` is a component of the engine `toy`."""
    loaded = {name: Part("toy", {}, Build("key", "onnx", Path("model.onnx"), "float32")) for name in parts}
    given = {"parts": loaded, "workload": CASE.workload, "device_kind": "cpu", **fields}
    return Execution(CASE.model, component, **given)


def sample(ms: float = 10.0, *, first: Any = 500, second: Any = 400, source: str = "host", calls: int = 0) -> Sample:
    def size(value: Any) -> int | None:
        return None if value is None else int(value * MB)

    return Sample(
        (ms / 1000,) * 5,
        first_run_bytes=size(first),
        second_run_bytes=size(second),
        memory_source=source,
        unet_calls=calls,
    )


def samples(*times_ms: float, **fields: Any) -> tuple[Sample, ...]:
    return tuple(sample(ms, **fields) for ms in times_ms)


def sample_with(ms: float = 10.0, **facts: Any) -> Sample:
    """Return a sample of a GPU, where a GPU is what can tell kernels."""
    return dataclasses.replace(sample(ms, source="device"), facts=facts)


def kernels(**counts: int) -> dict[str, dict[str, float]]:
    """Return the fact `kernels`: `attention_flash=32` is 32 launches, each of 10 microseconds."""
    return {kind.replace("_", "-"): {"count": count, "seconds": count * 1e-5} for kind, count in counts.items()}


def measurement(*times_ms: float, **fields: Any) -> Measurement:
    of_sample = {name: fields.pop(name) for name in ("first", "second", "source", "calls") if name in fields}
    given = {"case": CASE, "counts": COUNTS, "subject": SUBJECT, **fields}
    return Measurement(samples=samples(*(times_ms or (9.9, 10.0, 10.1)), **of_sample), **given)


def failed(reason: str, message: str = "", tail: str = "", **fields: Any) -> Measurement:
    given = {"case": CASE, "subject": SUBJECT, **fields}
    return Measurement(samples=(), failure=Failure(reason, message, tail), **given)


def took(*peaks_mb: float, source: str = "device") -> tuple[Sample, ...]:
    """Return samples of processes that took so much memory in both runs."""
    return tuple(sample(10, first=peak, second=peak, source=source) for peak in peaks_mb)


def session(*times_ms: float, date: str = "2026-11-20T10:00Z", **fields: Any) -> Session:
    of_sample = {name: fields.pop(name) for name in ("first", "second", "source", "calls") if name in fields}
    given = {"counts": COUNTS, "subject": SUBJECT, **fields}
    if given.get("failure"):
        return Session(date=date, **{**given, "counts": {}})
    return Session(date=date, samples=samples(*(times_ms or (9.9, 10.0, 10.1)), **of_sample), **given)


def stored(*sessions: Session, anchor: Session | None = None, of: Case = CASE) -> StoredCase:
    given = sessions or (session(),)
    return StoredCase(case=of, anchor=anchor or given[0], sessions=given)


def waited(of: Any, share: float) -> Any:
    """Return a measurement, or a stored case, whose processes waited for this share of the time of their threads."""
    if isinstance(of, StoredCase):
        sessions = tuple(waited(one, share) for one in of.sessions)
        return msgspec.structs.replace(of, sessions=sessions, anchor=sessions[0])
    samples = tuple(dataclasses.replace(one, facts={**one.facts, "waited": share}) for one in of.samples)
    replace = msgspec.structs.replace if isinstance(of, Session) else dataclasses.replace
    return replace(of, samples=samples)
