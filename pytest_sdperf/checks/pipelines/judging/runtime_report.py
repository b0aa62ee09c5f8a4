"""Did that run which was asked for? Free of noise and of any baseline.

INVALID where something else ran than was asked for: its time is no result of the case. FAILED where the engine lacks
what it must have: nodes that leave the GPU, a compilation that breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import capital, component
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.our_metric import OurMetric
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import ComponentFacts, Facts, Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.tasks.sampling.kernels import ATTENTIONS, attention_of

PLACEMENT, CUDA_GRAPH, COMPILE, ATTENTION, INPUTS = "placement", "cuda-graph", "compile", "attention", "changed-inputs"
NAMED = 5
Look = Callable[[str, ComponentFacts, Facts, StoredCase | None, Policy], Verdict | None]


def parts_of(sample: Sample, name: str) -> dict[str, ComponentFacts]:
    """Return the facts of each component that a sample executed; `name` is the component of its case."""
    return sample.facts.get("components") or {name: sample.facts}


def beside_file(facts: ComponentFacts) -> str:
    """Return why there are other nodes than in the file, ` (...)`; empty where they are as many, or not known."""
    placed, in_file = sum(facts.get("placement", {}).values()), facts.get("file_nodes")
    if not placed or in_file in {None, placed} or facts.keys() & {"partitions", "partitions_not_available"}:
        return ""
    return f" (the graph as ONNX Runtime runs it, after its own changes to the {_nodes(in_file)} of the file)"


class RuntimeMetric(OurMetric):
    """What the workers found out about each component, judged by `look`; the worst of all speaks."""

    leveled = False

    def __init__(self, name: str, look: Look) -> None:
        self.name, self._look = name, look

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge each component in each process; None where nothing was found out."""
        found = [
            verdict
            for sample in measurement.samples
            for name, facts in parts_of(sample, measurement.case.component).items()
            if (verdict := self._look(name, facts, sample.facts, stored, policy)) is not None
        ]
        return max(found, key=lambda verdict: (verdict.outcome.rank, verdict.told), default=None)


def _knew(stored: StoredCase | None, name: str) -> bool:
    """Return whether the newest session of a baseline knows where every node of a component was."""
    if stored is None or not stored.sessions:
        return False
    return any("cpu_node_count" in parts_of(one, stored.case.component).get(name, {}) for one in stored.last.samples)


def _placement(name: str, facts: ComponentFacts, _: Facts, stored: StoredCase | None, *__: object) -> Verdict | None:
    """Judge where nodes are; TensorRT and MIGraphX leave nodes to others on purpose, see `partitions`."""
    if "partitions" in facts:
        return None if facts["partitions"]["engines"] else _nothing_compiled(name, facts)
    if "partitions_not_available" in facts:
        what = f"Which parts of the {component(name)} graph {_provider(facts)} compiled"
        # What the baseline knew of them is looked for by `partitions`.
        return _not_seen("partitions", what, facts["partitions_not_available"], before=False)
    wrong = _misplaced(name, facts)
    if wrong is not None:
        return wrong
    if "placement_not_available" in facts:
        what = f"Where the nodes of the {component(name)} graph run"
        return _not_seen("placement", what, facts["placement_not_available"], before=_knew(stored, name))
    if "cpu_node_count" not in facts:
        return None
    if facts.get("memcpy_nodes") is None:
        what = f"Whether values of the {component(name)} graph go back and forth between CPU and GPU"
        why = "nothing shows what ONNX Runtime said when it put Memcpy nodes in"
        return _not_seen("memcpy", what, why, before=_knew(stored, name))
    on_cpu = facts["cpu_node_count"]
    shapes = f", {_nodes(on_cpu)} on the CPU that only compute shapes" if on_cpu else ""
    placed = sum(facts.get("placement", {}).values()) - on_cpu
    sentence = f"{_nodes(placed)} of the {component(name)} graph {_run(placed)} on {_provider(facts)}{shapes}"
    return Verdict(
        Outcome.PASSED, "placed-as-asked", f"{sentence}{beside_file(facts)}; no Memcpy node.", PLACEMENT, placed
    )


def _misplaced(name: str, facts: ComponentFacts) -> Verdict | None:
    """Return the verdict on nodes that are not where they belong, as far as they are known."""
    on_cpu, copies, provider = facts.get("cpu_node_count", 0), facts.get("memcpy_nodes"), _provider(facts)
    unexpected = on_cpu - facts.get("shape_node_count", 0)
    if unexpected:
        sentence = (
            f"{_nodes(unexpected)} of the {component(name)} graph {_run(unexpected)} on the CPU: "
            f"{_named(facts.get('cpu_nodes', []), unexpected)}; the {provider} provider has no kernel for "
            f"{'that at its' if unexpected == 1 else 'them at their'} types, attributes or opset."
        )
        return Verdict(Outcome.FAILED, "cpu-nodes", sentence, PLACEMENT, unexpected, 0)
    if copies:
        named = f"On the CPU are {_named(facts.get('cpu_nodes', []), on_cpu)}; s" if on_cpu else "S"
        sentence = (
            f"ONNX Runtime put {plural(copies, 'Memcpy node')} into the {component(name)} graph: values go back and "
            f"forth between CPU and GPU in every call. {named}tatic shapes need no such computation."
        )
        return Verdict(Outcome.FAILED, "memcpy-nodes", sentence, PLACEMENT, copies, 0)
    return None


def _not_seen(code: str, what: str, why: str, *, before: bool) -> Verdict:
    """Return the verdict on something that nobody can see; what the baseline saw must be seen again."""
    sentence = f"{what} is not known: {why}"
    if before:
        return invalid(f"{code}-missing", f"{sentence}; its baseline knows it.", metric=PLACEMENT)
    return Verdict(Outcome.INCONCLUSIVE, f"{code}-not-seen", f"{sentence}.", PLACEMENT)


def _nothing_compiled(name: str, facts: ComponentFacts) -> Verdict:
    sentence = f"{_provider(facts)} compiled no part of the {component(name)} graph: others run all of it."
    return invalid("nothing-compiled", sentence, metric=PLACEMENT)


def _provider(facts: ComponentFacts) -> str:
    first = facts.get("providers") or ["The provider"]
    return first[0].removesuffix("ExecutionProvider")


def _nodes(count: int) -> str:
    return plural(count, "node")


def _run(count: int) -> str:
    return "runs" if count == 1 else "run"


def _named(names: list[str], count: int) -> str:
    more = count - len(names[:NAMED])
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _cuda_graph(name: str, facts: ComponentFacts, *_: object) -> Verdict | None:
    graph = facts.get("cuda_graph", {})
    if not graph.get("requested"):
        return None
    what = component(name)
    if graph.get("replayed") is False:
        sentence = f"A CUDA graph was asked for, but the {what} replays none: its kernels are launched one by one."
        return invalid("graph-not-replayed", sentence, metric=CUDA_GRAPH)
    if graph.get("changed_inputs") is False:
        wrong = facts.get("changed_inputs", {}).get("wrong") or "its answers are those of other inputs"
        sentence = f"The CUDA graph of the {what} gives wrong answers: {wrong}."
        return invalid("graph-stale", sentence, metric=CUDA_GRAPH)
    if graph.get("replayed") is None:
        why = facts.get("kernels_not_available", "nothing says so")
        sentence = f"Whether the {what} replays the CUDA graph that was asked for is not known: {why}."
        return Verdict(Outcome.INCONCLUSIVE, "graph-not-seen", sentence, CUDA_GRAPH)
    tail = ", and gives the right answers to changed inputs" if graph.get("changed_inputs") else ""
    return Verdict(Outcome.PASSED, "graph-replayed", f"The {what} replays its CUDA graph{tail}.", CUDA_GRAPH)


def _compile(name: str, facts: ComponentFacts, *_: object) -> Verdict | None:
    compiled = facts.get("compile")
    if compiled is None:
        return None
    if compiled.get("graphs", 0) < 1:
        sentence = (
            f"torch.compile compiled nothing of the {component(name)}, which runs as plain torch: look whether "
            f"TORCHDYNAMO_DISABLE is set."
        )
        return invalid("compiled-nothing", sentence, metric=COMPILE)
    counted = {
        "graph break": compiled.get("graph_breaks", 0),
        "recompilation in the timed calls": compiled.get("recompiles", 0),
        "skipped CUDA graph": compiled.get("cudagraph_skips", 0),
    }
    wrong = ", ".join(_several(count, noun) for noun, count in counted.items() if count)
    what = f"torch.compile made {plural(compiled['graphs'], 'graph')} of the {component(name)}"
    if not wrong:
        sentence = f"{what}: no break, no recompilation, no CUDA graph skipped."
        return Verdict(Outcome.PASSED, "compiled-whole", sentence, COMPILE)
    reasons = tuple(f"because: {reason}" for reason in compiled.get("reasons", ())[:NAMED])
    return Verdict(
        Outcome.FAILED, "compile-broken", f"{what}: {wrong}.", COMPILE, sum(counted.values()), 0, details=reasons
    )


def _several(count: int, noun: str) -> str:
    first, _, rest = noun.partition(" in ")
    return plural(count, first) + (f" in {rest}" if rest else "")


def _attention(name: str, facts: ComponentFacts, whole: Facts, _: object, policy: Policy) -> Verdict | None:
    """Judge whether the attention that was asked for ran; a pipeline's kernels are those of all its components."""
    asked = facts.get("attention")
    wanted = attention_of(asked) if asked else ()
    if not wanted or policy.on_cpu:  # nobody can see that of a CPU
        return None
    kernels = whole.get("kernels")
    what = f"The attention {asked!r} that was asked for"
    if kernels is None:
        why = whole.get("kernels_not_available", "nothing says so")
        sentence = f"{what} of the {component(name)} may have run or not: {why}."
        return Verdict(Outcome.INCONCLUSIVE, "attention-not-seen", sentence, ATTENTION)
    ran = {kind: int(kernels[kind]["count"]) for kind in ATTENTIONS if kind in kernels and kernels[kind]["count"]}
    listed = ", ".join(f"{kind} {count}" for kind, count in ran.items()) or "no attention kernel that is known by name"
    if not set(wanted) & set(ran):
        return invalid("attention-absent", f"{what} did not run: there ran {listed}.", metric=ATTENTION)
    if set(ran) - set(wanted):
        return Verdict(Outcome.PASSED, "attention-mixed", f"{what} ran in some places only: {listed}.", ATTENTION)
    return Verdict(Outcome.PASSED, "attention-ran", f"{what} ran: {listed}.", ATTENTION)


def _inputs(name: str, facts: ComponentFacts, *_: object) -> Verdict | None:
    """Judge the answers to changed inputs where no CUDA graph is to blame for them."""
    wrong = facts.get("changed_inputs", {}).get("wrong")
    if not wrong or facts.get("cuda_graph", {}).get("requested"):
        return None
    sentence = f"{capital(component(name))} outputs do not follow its inputs: {wrong}."
    return invalid("answers-wrong", sentence, metric=INPUTS)


_LOOKS: Mapping[str, Look] = {
    PLACEMENT: _placement, CUDA_GRAPH: _cuda_graph, COMPILE: _compile, INPUTS: _inputs, ATTENTION: _attention
}  # fmt: skip
METRICS = tuple(RuntimeMetric(name, look) for name, look in _LOOKS.items())
