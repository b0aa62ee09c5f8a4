"""What a registered check found out and says of it, refused where it breaks its contract."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.errors import CheckError
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Case, to_json
from pytest_sdperf.core.values.check import Advice, CheckReport, Counted
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

_ALLOWED = (Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.INVALID)


def judged(
    check: Check,
    finding: Any,
    case: Case,
    *,
    policy: Policy,
    owner: str,
    stored: Counted | None = None,
) -> tuple[CheckReport, Verdict]:
    """Judge what a check found.

    Args:
        check: The check.
        finding: What its `run` returned.
        case: What it looked at.
        policy: How strictly it judges.
        owner: The module that registered it.
        stored: What a baseline has of what it counts of the case; None where it never has anything.

    Raises:
        CheckError: It broke its contract; the message says how.
    """
    where = f"the check {check.name!r} of {owner}"
    beside = {"stored": stored} if check.library else {}
    verdict = _verdict(check, check.judge(finding, case, policy=policy, **beside), where)
    data = _data(finding, where)
    rows: Any = tuple(check.rows(finding)) if check.columns else ()
    for row in rows:
        if len(row.cells) != len(check.columns) or not all(isinstance(cell, str) for cell in row.cells):
            raise CheckError(
                f"{where} has {plural(len(check.columns), 'column')}, and its `row` gave {row.cells!r}. Allowed: one "
                f"text for each column."
            )
    advice: Any = check.advice(verdict)
    if advice is not None and not isinstance(advice, Advice):
        raise CheckError(f"{where} advised {advice!r}. Allowed: an Advice, or None.")
    report = CheckReport(
        check.beside or check.name,
        data,
        columns=check.columns,
        rows=rows,
        legend=tuple(check.legends(finding)),
        advice=advice,
        counted=stored and dataclasses.replace(stored, counts=check.counts(finding), older=""),
        explanation=data.pop("explanation", None) if isinstance(data, dict) else None,
    )
    return report, verdict


def _verdict(check: Check, verdict: Any, where: str) -> Verdict:
    if not isinstance(verdict, Verdict):
        raise CheckError(f"{where} judged with {verdict!r}. Allowed: one Verdict.")
    if verdict.outcome not in _ALLOWED and not check.library:
        raise CheckError(
            f"{where} judged {verdict.outcome.value}, which is no verdict of a check: it has no baseline. Allowed: "
            f"{', '.join(outcome.value for outcome in _ALLOWED)}."
        )
    if verdict.metric != check.name:
        raise CheckError(f"{where} gave a verdict with the metric {verdict.metric!r}. Allowed: {check.name!r}.")
    return verdict


def _data(finding: Any, where: str) -> Any:
    try:
        return json.loads(json.dumps(to_json(finding)))
    except (TypeError, ValueError) as error:
        raise CheckError(
            f"{where} found something that is no JSON data: {error}. Return numbers, texts, lists, dictionaries, or "
            f"dataclasses of these from its `run`."
        ) from error
