"""Is the graph as optimized as it was? Counting is free of noise, and it names the operator that was lost.

An operator outside the ONNX domain is a fused one: an optimizer put it there in place of several nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import capital, component, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.fusing.node_names import SILU

METRIC = "counts"

Counts = Mapping[str, int]


def judge_graphs(measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> tuple[Verdict, ...]:
    """Judge the node counts of every graph that ran, one verdict each; none where the engine has no graph.

    Whether a graph is fused as far as its torch module allows is asked elsewhere (`target`).
    """
    before = dict(stored.last.counts) if stored is not None and stored.sessions else {}
    counted = measurement.counts
    if not counted and not before:
        return (_uncounted(measurement.case.component),) if measurement.case.exporter else ()
    changes = since(stored, measurement.subject)
    judged = (
        _judge_graph(name, counts, before.get(name), policy=policy, changes=changes)
        for name, counts in sorted(counted.items())
    )
    return (*judged, *(_uncounted(name) for name in sorted(set(before) - set(counted))))


def _uncounted(name: str) -> Verdict:
    return invalid("counts-missing", f"The {component(name)} graph was not counted.", metric=METRIC)


def _judge_graph(name: str, counts: Counts, before: Counts | None, *, policy: Policy, changes: str) -> Verdict:
    what = f"{capital(component(name))} graph"
    nodes = sum(counts.values())
    if not nodes or any(count < 0 for count in counts.values()):
        return invalid("counts-empty", f"{what} has no nodes.", metric=METRIC)
    if before is None:
        sentence = f"{what} of {plural(nodes, 'node')} has no baseline yet."
        return Verdict(Outcome.NEW, "no-baseline", sentence, METRIC, nodes)
    expected = sum(before.values())
    if not expected:
        return invalid("baseline-unusable", f"The baseline of the {component(name)} graph has no nodes.", metric=METRIC)
    counts = _as_before(counts, before)
    outcome, code = _direction(counts, before, policy=policy)
    sentence = f"{what} has {plural(nodes, 'node')}, as in its baseline"
    if _listed(counts, before):
        sentence = (
            f"{what} has {plural(nodes, 'node')}; its baseline has {expected:,}: {_listed(counts, before)}{changes}"
        )
    return Verdict(outcome, code, f"{sentence}.", METRIC, nodes, expected)


def _as_before(counts: Counts, before: Counts) -> Counts:
    """Return counts by the names of a baseline: an older one does not count norms with an activation apart."""
    if any(name.endswith(SILU) for name in before):
        return counts
    named: Counter[str] = Counter()
    for name, nodes in counts.items():
        plain = name.removesuffix(SILU)
        named[plain if plain in before else name] += nodes
    return named


def _direction(counts: Counts, before: Counts, *, policy: Policy) -> tuple[Outcome, str]:
    """Say which way a graph went.

    Fewer fused operators is a regression, unless they were exchanged for others and the graph shrank (GroupNorm
    becomes SkipGroupNorm). Otherwise the number of nodes decides, beyond a small tolerance: exporters add and drop
    trivial nodes from version to version.
    """
    fused, fused_before = _fused(counts), _fused(before)
    nodes, nodes_before = sum(counts.values()), sum(before.values())
    lost = any(fused.get(name, 0) < count for name, count in fused_before.items())
    exchanged = sum(fused.values()) >= sum(fused_before.values()) and nodes < nodes_before
    if lost and not exchanged:
        return Outcome.REGRESSED, "fused-operators-lost"
    if nodes > nodes_before * (1 + policy.node_effect):
        return Outcome.REGRESSED, "graph-grew"
    if fused != fused_before and nodes < nodes_before:
        return Outcome.IMPROVED, "more-fused"
    if nodes < nodes_before * (1 - policy.node_effect):
        return Outcome.IMPROVED, "graph-shrank"
    return Outcome.HELD, "graph-as-before"


def _short_name(name: str) -> str:
    return name.rpartition("::")[2]


def _fused(counts: Counts) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count and not name.startswith(("::", "ai.onnx::"))}


def _listed(counts: Counts, before: Counts) -> str:
    """List changes, fused operators first, then the largest."""
    changes = {name: counts.get(name, 0) - before.get(name, 0) for name in {*counts, *before}}
    fused = {**_fused(before), **_fused(counts)}
    order = sorted((name for name in changes if changes[name]), key=lambda n: (n not in fused, -abs(changes[n]), n))
    texts = [f"{_short_name(name)} {before.get(name, 0)} -> {counts.get(name, 0)}" for name in order[:6]]
    return ", ".join(texts) + (f" and {len(order) - 6} more" if len(order) > 6 else "")
