"""Gates: checks of correctness and of what ran. While one fails, the times of the same build are no results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome

# What has stored sessions that no longer say what is normal once it has changed; so has each metric of a plug-in.
LEVELS = tuple(name for name, metric in OURS.items() if metric.leveled)
# A change of these may be accepted with a reason; what else fails is wrong, whatever was stored.
JUDGED_ALONE = (*LEVELS, "counts", "measurement")
WHOLE = (PIPELINE, "image")


def failed_gates(reports: Iterable[CaseReport]) -> tuple[tuple[Case, str], ...]:
    """Return the cases on which something else than a time or a size failed, and what failed."""
    return tuple((report.case_of(side), why) for report in reports for side, why in _gate_failures(report).items())


def wrong_builds(reports: Iterable[CaseReport]) -> tuple[Case, ...]:
    """Return the cases that FAILED a registered check: their speed is no result."""
    return tuple(
        report.case_of(verdict.side)
        for report in reports
        for verdict in report.verdicts
        if verdict.metric in report.checks and verdict.outcome is Outcome.FAILED
    )


def concerns(gate: Case, case: Case) -> bool:
    """Whether a failed gate concerns a case. A gate on a graph alone (no engine) concerns every engine that runs it."""
    build = ("model", "optimization", "fuser", "exporter", "opset", "shapes", "weights", "fp32_ops")
    if any(getattr(gate, name) != getattr(case, name) for name in build):
        return False
    if gate.engine and (gate.engine, gate.engine_options) != (case.engine, case.engine_options):
        return False
    return gate.component == case.component or gate.component in WHOLE or case.component in WHOLE


def _gate_failures(report: CaseReport) -> Mapping[str, str]:
    """Return the side of an A/B, empty for none, -> what failed of it."""
    if report.problem:
        return {"": f"{report.nodeid} failed: {report.problem}"}
    failing = [verdict for verdict in report.verdicts if verdict.outcome.wrong or verdict.outcome is Outcome.INVALID]
    own = {name for measurement in report.measurements.values() for name in measurement.metrics}
    gates = [one for one in failing if one.outcome is Outcome.FAILED or one.metric not in {*JUDGED_ALONE, *own}]
    return {verdict.side: f"{report.nodeid}: {verdict.sentence}" for verdict in reversed(gates)}
