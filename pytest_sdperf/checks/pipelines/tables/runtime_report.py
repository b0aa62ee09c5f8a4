"""What ran of each case: where its nodes are, whether its CUDA graph was replayed, which kernels the GPU ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.pipelines.judging import kernels, runtime_report
from pytest_sdperf.checks.pipelines.judging.host_waits import HostWaits
from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.checks.pipelines.judging.our_metric import RUNTIME_REPORT, OfPlugIn, titled
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.units import plural, seconds, share
from pytest_sdperf.core.values import Case, ComponentFacts, Facts, Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.tasks.sampling.kernels import NONE_ON_CPU, OTHER

GATES = frozenset(name for name, metric in OURS.items() if metric.table == RUNTIME_REPORT)
_FINE = (Outcome.PASSED, Outcome.HELD, Outcome.NEW, Outcome.IMPROVED)
_INDENT = "  "
_LEGEND = (
    "of kernels: how many are launched in a call, and what they take, the mean of the calls that the last process "
    "watched; they may run side by side"
)
_NAMED, _LONGEST_NAME = 2, 60
# From this share of the time on kernels of no known kind are told, and products without tensor cores. A convolution of
# the four channels of a latent image has none to use, and takes less.
_WORTH_TELLING = 0.01
# Such products are told in any case where they take this share of it.
_WASTED = 0.1


def runtime_report_lines(reports: Iterable[CaseReport], *, width: int, every: bool) -> Iterator[Line]:
    """Yield a paragraph per measured case, and side of an A/B, of the last process.

    Args:
        reports: Of the run.
        width: Columns of the terminal.
        every: Also of cases in which everything ran as it should, and their products on tensor cores.
    """
    texts = [
        (
            _label(measurement.case, side),
            "; ".join([*_told(measurement), *_metrics(measurement)]),
        )
        for report in reports
        if every or _is_wrong(report)
        for side, measurement in report.measurements.items()
        if measurement.samples
    ]
    told = [f"{label}: {text}" for label, text in texts if text]
    if told:
        yield Line("runtime report", ("bold",))
    for text in told:
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT * 2)
    if any("kernels: " in text for text in told):
        yield from wrapped(_LEGEND, width=width, first=_INDENT, rest=_INDENT)


def _is_wrong(report: CaseReport) -> bool:
    gated = any(verdict.metric in GATES and verdict.outcome not in _FINE for verdict in report.verdicts)
    return gated or any(
        (kernels.share_without_tensor_cores(sample) or 0.0) >= _WASTED
        for measurement in report.measurements.values()
        for sample in measurement.samples[-1:]
    )


def _label(case: Case, side: str) -> str:
    engine = engine_label(case.engine, case.engine_options)
    return f"{side and f'{side}: '}{case.model} {case.component} {case.optimization} {engine} batch {case.batch_size}"


def _told(measurement: Measurement) -> Iterator[str]:
    sample, component = measurement.samples[-1], measurement.case.component
    parts = runtime_report.parts_of(sample, component)
    for name, facts in parts.items():
        told = "; ".join(_of_component(facts))
        if told:
            yield f"{name}: {told}" if len(parts) > 1 else told
    yield from _kernels(sample.facts)
    yield from _busy(sample)
    waits = HostWaits().extract(sample)
    if waits is not None and component != PIPELINE:  # those of a request are told beside its stages
        yield f"the host waits: {waits.words}"


def _metrics(measurement: Measurement) -> Iterator[str]:
    for name, info in measurement.metrics.items():
        if (value := OfPlugIn(name, info).extract(measurement.samples[-1])) is not None:
            yield titled(value, info)


def _of_component(facts: ComponentFacts) -> Iterator[str]:
    placed = facts.get("placement", {})
    if placed:
        where = ", ".join(f"{plural(count, 'node')} on {_provider(name)}" for name, count in placed.items())
        yield f"{where}{runtime_report.beside_file(facts)}"
    if copies := facts.get("memcpy_nodes"):
        yield plural(copies, "Memcpy node")
    if "partitions" in facts:
        yield plural(facts["partitions"]["engines"], "engine")
    if facts.get("cuda_graph", {}).get("requested"):
        told = {True: "CUDA graph replayed", False: "CUDA graph not replayed", None: "CUDA graph not seen"}
        yield told[facts["cuda_graph"].get("replayed")]
    if "changed_inputs" in facts:
        yield f"{'right' if facts['changed_inputs']['right'] else 'WRONG'} answers to changed inputs"
    if "attention" in facts:
        yield f"attention {facts['attention']} asked for"


def _busy(sample: Sample) -> Iterator[str]:
    busy_s = sample.facts.get("gpu_busy_s")
    if busy_s:
        yield f"the GPU is busy for {seconds(busy_s)} of {seconds(sample.median_s)}"
    wasted = kernels.share_without_tensor_cores(sample)
    found = sample.facts.get("kernels_without_tensor_cores")  # results of another version may lack it
    if wasted and wasted >= _WORTH_TELLING and found:
        each = ", ".join(
            f"{int(entry['count']):,} {kind} ({seconds(entry['seconds'])})" for kind, entry in found.items()
        )
        how = _chosen(sample.facts) if any("convolution" in kind for kind in found) else ""
        yield f"for {share(wasted)} of that it multiplies half precision WITHOUT TENSOR CORES: {each}{how}"


def _chosen(facts: ComponentFacts) -> str:
    """Say what a choice of convolutions rests on, where the engine says it."""
    if facts.get("tf32") == "off":
        return ", which tf32=off takes from convolutions of any type: type tf32=on"
    chosen = facts.get("conv_search")
    return f", chosen under conv_search={chosen}" if chosen else ""


def _provider(name: str) -> str:
    return name.removesuffix("ExecutionProvider")


def _kernels(facts: Facts) -> Iterator[str]:
    found = facts.get("kernels")
    if found is None:
        why = facts.get("kernels_not_available", NONE_ON_CPU)
        if why != NONE_ON_CPU:
            yield f"kernels not available: {why}"
        return
    counts = ", ".join(f"{kind} {int(entry['count']):,}" for kind, entry in found.items())
    yield f"{plural(sum(int(entry['count']) for entry in found.values()), 'kernel')}: {counts}"
    slowest = ", ".join(
        f"{_short(one['name'])} ({int(one['count']):,}, {seconds(one['seconds'])})"
        for one in facts.get("kernels_slowest", ())[:_NAMED]
    )
    if slowest:
        yield f"slowest {slowest}"
    together = sum(entry["seconds"] for entry in found.values())
    unknown = found[OTHER]["seconds"] / together if OTHER in found and together else 0.0
    if unknown >= _WORTH_TELLING:
        names = ", ".join(_short(name) for name in facts.get("kernels_other", ())[:2])
        yield f"{share(unknown)} of their time is in kernels of no known kind, such as {names}"


def _short(name: str) -> str:
    """Return what a kernel is called, without its type and its arguments."""
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", plain, maxsplit=1)[0][:_LONGEST_NAME] or plain[:_LONGEST_NAME]
