"""Are the fused operators there? A check of a build, which needs no device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.builds.expectations import CaseBuild, explain_build
from pytest_sdperf.builds.steps import kept_ops
from pytest_sdperf.checks.fusions.target import (
    EVERY_PLACE,
    METRIC,
    Operators,
    half_missing,
    judge_against_target,
    lacking,
)
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.case import EXTERNAL
from pytest_sdperf.core.values.check import Counted
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.fusing.explain import short

THIN = "-thin"
DONE = ("yes", "has nothing to fuse")

Counts = Mapping[str, int]


class Fused(Check):
    """Judge the fused operators of a build: `sdperf_fused(build, expected_counts)` fails where one is missing."""

    name, fixture = METRIC, "fused"
    library = "onnxruntime"

    def key(self, case: Case) -> str:
        """Return what was exported and fused, and how; not its weights, sizes and engine.

        A thin model has the topology of the full one. A graph that was exported elsewhere is known by its content
        alone. Our own optimizer on our own export is judged by its target, and never stored.
        """
        if case.fuser != "ort" and case.exporter != EXTERNAL:
            return ""
        model, weights = case.model.removesuffix(THIN), case.weights if case.exporter == EXTERNAL else ""
        texts: dict[str, Any] = dict.fromkeys(("engine", "fp32_ops", "scheduler"), "")
        numbers: dict[str, Any] = dict.fromkeys(("batch_size", "height", "width", "steps"), 0)
        build = {**texts, **numbers, "engine_options": (), "model": model, "weights": weights}
        return dataclasses.replace(case, **build).key

    def run(self, subject: CaseBuild, expected: Counts) -> Operators:
        """Gather what the build holds and what it can hold.

        Args:
            subject: The build.
            expected: `domain::op_type` -> nodes, as `sdperf_expected_counts` has them.
        """
        case, builder, selection = subject.case, subject.builder, subject.builder.settings.selection
        about = (case.model, case.component, case.optimization)
        budgets = builder.expected_budgets(*about)
        exporter = builder.exporter(case)
        allowed, most, places = expected, budgets, exporter.places(case)
        standing = exporter.standing(case).get(case.component)
        if standing is not None:
            whole = (*about[:2], builder.catalog.ladder[-1])
            allowed = builder.expected_counts(*whole) if selection.has_module else {}
            most = builder.expected_budgets(*whole) if selection.has_module else {}
        asked = kept_ops(selection, case.component, subject.dtype)
        wide = subject.float32_products.items()
        return Operators(
            counts={**dict.fromkeys((*allowed, *expected, *budgets), 0), **subject.counts},
            expected=expected,
            budgets=budgets,
            allowed=allowed,
            most=most,
            float32_products={op: nodes for op, nodes in wide if short(op).partition("[")[0] not in asked},
            allowed_by="torch module" if selection.has_module else "own structure",
            external=builder.external is not None,
            standing=standing,
            explanation=explain_build(subject, builder.expected_sites(*about), places=places, budgets=budgets),
            every_place=str(builder.settings.explain_file or EVERY_PLACE),
        )

    def judge(self, finding: Operators, case: Case, *, policy: Policy, stored: Counted | None = None) -> Verdict:
        """Judge them by what there can be, and by what is known of a foreign optimizer or graph."""
        if finding.standing is not None:
            return judge_as_is(case, finding, seen=stored is not None and bool(stored.counts))
        if stored is not None and case.fuser != "ort":
            # Of a graph that onnxruntime did nothing to, no release of it says anything.
            stored = dataclasses.replace(stored, older="")
        return judge_against_target(case, finding, known=stored)

    def counts(self, finding: Operators) -> Counts:
        """Return what a foreign optimizer reached."""
        return {op: finding.counts[op] for op in (*finding.allowed, *finding.expected, *finding.budgets)}


def judge_as_is(case: Case, found: Operators, *, seen: bool = False) -> Verdict:
    """Judge a graph that was taken as it is.

    Its counts are those of its file, whose hash is in the case: they cannot become fewer, so nothing is REGRESSED.

    Args:
        case: What was taken.
        found: Its operators, and how each optimization stands.
        seen: Whether its counts are stored.

    Returns:
        If something could be fused that is not, or computed in half precision, GAP where that was seen before, else
        NEW; PASSED if nothing could.
    """
    standing, counts, expected, wide = found.standing or {}, found.counts, found.expected, found.wide
    open_optimizations = [name for name, text in standing.items() if text not in DONE]
    obtained, allowed = (float(sum(each.get(name, 0) for name in expected)) for each in (counts, expected))
    what = f"The {case.component} graph of {case.model}, taken as it is,"
    also = f"; it {wide}" if wide else ""
    outcome, code = (Outcome.GAP, "optimizations-missing") if seen else (Outcome.NEW, "optimizations-missing-unknown")
    if open_optimizations:
        listed = ", ".join(f"{name} {standing[name]}" for name in open_optimizations)
        sentence = f"{what} could be fused further: {listed}{also}."
        return Verdict(outcome, code, sentence, METRIC, obtained, allowed, details=found.places(case))
    if missing := lacking(counts, found.allowed, found.most):
        lacks = f"lacks operators that its torch module allows, in a form in which no fusion begins: {missing}"
        sentence = f"{what} {lacks}{also}."
        return Verdict(outcome, code, sentence, METRIC, obtained, float(sum(found.allowed.values())))
    if wide:
        outcome, code = half_missing(seen=seen)
        return Verdict(outcome, code, f"{what} {wide}.", METRIC, obtained, allowed)
    sentence = f"{what} has every optimization of the ladder that its structure allows."
    return Verdict(Outcome.PASSED, "as-is-complete", sentence, METRIC, obtained, allowed)
