"""Gates: checks of correctness and of what ran. While one fails, the times of the same build are no results."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_sdperf.components import PIPELINE
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.values import Case
from pytest_sdperf.values.outcomes import Outcome

# What has stored sessions that no longer say what is normal once it has changed.
LEVELS = (
    *("latency", "first-run-memory", "second-run-memory", "allocator-memory", "kernels", "partitions"),
    *("host-waits", "build-time", "warm-start", "artifact-size"),
)
# A change of these may be accepted with a reason; what else fails is wrong, whatever was stored.
JUDGED_ALONE = (*LEVELS, "counts", "measurement")
WHOLE = (PIPELINE, "image")


def failed_gates(reports: Iterable[CaseReport]) -> tuple[tuple[Case, str], ...]:
    """Return the cases on which something else than a time or a size failed, and what failed."""
    return tuple((report.case, why) for report in reports if (why := _gate_failure(report)))


def disagreements(reports: Iterable[CaseReport]) -> tuple[Case, ...]:
    """Return the cases whose outputs are too far from their reference."""
    return tuple(report.case for report in reports if _disagrees(report))


def concerns(gate: Case, case: Case) -> bool:
    """Whether a failed gate concerns a case. A gate on a graph alone (no engine) concerns every engine that runs it."""
    build = ("model", "optimization", "fuser", "exporter", "opset", "shapes", "weights", "fp32_ops")
    if any(getattr(gate, name) != getattr(case, name) for name in build):
        return False
    if gate.engine and (gate.engine, gate.engine_options) != (case.engine, case.engine_options):
        return False
    return gate.component == case.component or gate.component in WHOLE or case.component in WHOLE


def _disagrees(report: CaseReport) -> bool:
    return any(not agreement.passed for agreement in report.agreements)


def _gate_failure(report: CaseReport) -> str:
    if _disagrees(report):
        # They stand in the order of the data flow: what follows the first one has its error too.
        first = next(agreement for agreement in report.agreements if not agreement.passed)
        return f"{report.nodeid} disagrees with the reference: error {first.error:.2e}, limit {first.limit:.2e}"
    if report.problem:
        return f"{report.nodeid} failed: {report.problem}"
    failing = [verdict for verdict in report.verdicts if verdict.outcome in (Outcome.REGRESSED, Outcome.INVALID)]
    gates = [verdict for verdict in failing if verdict.metric not in JUDGED_ALONE]
    return f"{report.nodeid}: {gates[0].sentence}" if gates else ""
