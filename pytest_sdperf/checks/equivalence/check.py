"""Is a graph the same function as its torch module? A check of a build, which needs no device and no engine.

Compared at outputs in the precision of a build, a wrong epsilon or a residual from the wrong place may hide in the
noise of half precision. So the question is split: here everything is computed in float64, where the only noise is that
of float32 constants, and `agreement` asks whether the engine computes that graph.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.exact import Exact
from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.expectations import CaseBuild
from pytest_sdperf.builds.weights_identity import NONE
from pytest_sdperf.checks.agreement.locations import named
from pytest_sdperf.checks.agreement.tensors import relative_l2
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core import ladder
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.values import Build, Case
from pytest_sdperf.core.values.located import Located
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.fusing.graph_kinds import drawing, quantized

LIMIT = 1e-7
"""Relative L2 distance that passes. Constants are float32 wherever a graph holds them, and a factor that a fusion folds
into others is rounded once more: sound exports and builds are 2e-15 to 4e-8 away, and this is twice as much."""

MODULE, EXPORT, BUILD = "torch module", "export", "build"
_STORED = "::DequantizeLinear"


@dataclass(frozen=True)
class Link:
    """Two sides of a comparison in float64.

    Attributes:
        of, to: What is compared with what: `export` or `build`, with `torch module` or `export`.
        errors: Output -> relative L2 distance; infinite where shapes differ.
        unknown: Node that has no definition, and why; empty where everything could be computed.
        differences: Of a build that was compared with the same one at another size: what tells them apart beside that.
        begins: Where they first differ; None where they do not, or nobody can tell.
    """

    of: str
    to: str
    errors: Mapping[str, float]
    unknown: str = ""
    differences: tuple[str, ...] = ()
    begins: Located | None = None

    @property
    def error(self) -> float:
        """The largest of them; not a number where one is not."""
        return max(self.errors.values(), key=lambda error: math.inf if math.isnan(error) else error, default=0.0)


class Equivalent(Check):
    """Compare a build with its torch module in float64: `sdperf_equivalent(build)` fails where both differ."""

    name, fixture = "equivalence", "equivalent"
    columns = ("distance", "limit")
    legend = (
        "distance: relative L2 in float64 of the build to its torch module, or to its export where nobody has that; "
        "limit: what float32 constants explain"
    )

    def run(self, subject: CaseBuild) -> tuple[Link, ...]:
        """Compute every side that there is.

        Raises:
            NoReferenceError: There are no values, or nothing to compare with.
        """
        return tuple(_links(subject))

    def judge(self, finding: tuple[Link, ...], case: Case, *, policy: Policy) -> Verdict:
        """Judge the links in the order of the data flow; the first one that does not hold decides."""
        for link in finding:
            what = f"The {link.of} of the {case.component} of {case.model} at {case.optimization}"
            if link.unknown:
                sentence = f"{what} was not compared with its {link.to} in float64: {link.unknown}."
                return Verdict(Outcome.INCONCLUSIVE, "function-not-known", sentence, self.name)
            if link.differences:
                sentence = f"{what} is not its {link.to}, which was proven: {'; '.join(link.differences)}."
                return Verdict(Outcome.FAILED, "another-graph", sentence, self.name)
            if not link.error <= LIMIT:
                worst = next(name for name, error in link.errors.items() if error == link.error or math.isnan(error))
                sentence = (
                    f"{what} is another function than its {link.to}{_begins(link.begins)}: {worst} is "
                    f"{link.error:.2e} away in float64, and at most {LIMIT:.0e} passes, whatever the precision of the "
                    f"build."
                )
                return Verdict(Outcome.FAILED, "another-function", sentence, self.name, link.error, LIMIT)
        largest = max((link.error for link in finding), default=0.0)
        sentence = (
            f"The {case.component} graph of {case.model} at {case.optimization} is the function of its "
            f"{finding[0].to}: at most {largest:.2e} away in float64 (limit {LIMIT:.0e})."
        )
        return Verdict(Outcome.PASSED, "same-function", sentence, self.name, largest, LIMIT)

    def row(self, finding: tuple[Link, ...]) -> tuple[str, ...]:
        """Return the largest distance."""
        errors = [math.inf if math.isnan(link.error) else link.error for link in finding]
        return (
            "-" if any(link.unknown or link.differences for link in finding) else f"{max(errors):.2e}",
            f"{LIMIT:.0e}",
        )


@dataclass(frozen=True)
class _Side:
    """A module, an export or a build, and what it computes."""

    word: str
    build: Build
    outputs: Exact


def _links(subject: CaseBuild) -> Iterator[Link]:
    """Yield the comparison of build and module; where they differ, of each with the export that lies between."""
    _check_has_values(subject)
    builder = subject.builder
    case = subject.case
    if builder.external is None and builder.reference is None:  # whose graphs have the size that they have
        case = builder.exact.stand_in(case, case.component)
    build: Build = subject
    if case != subject.case:
        build = builder.build(case, case.component, altered=builder.settings.altered)
    full = (subject.case, subject) if case != subject.case else None
    at = f" at {case.height}x{case.width}" if full else ""
    for link in _compared(case, builder, build, full=full, gpu=subject.gpu):
        yield dataclasses.replace(link, to=f"{link.to}{at}")


def _compared(
    case: Case, builder: Builder, build: Build, *, full: tuple[Case, Build] | None, gpu: RunContext | None
) -> Iterator[Link]:
    module = builder.module(case.model, case.component) if builder.settings.selection.has_module else None
    export = _export_of(case, builder)
    if module is None and export is None:
        raise NoReferenceError(
            "--sdperf-onnx-dir holds graphs alone. Type --sdperf-weights=FOLDER with the torch weights that they were "
            "exported from, or --sdperf-onnx-reference=FOLDER with a float32 export of them"
        )
    outputs = functools.partial(builder.exact.of, case, case.component, gpu=gpu)
    is_export = export is not None and export.key == build.key
    made = _Side(EXPORT if is_export else BUILD, build, outputs(build, export=export, full=full))
    as_held = functools.partial(outputs, held=made.outputs.held, build=build)

    def located(link: Link, graph: _Side, made_of: _Side) -> Link:
        if link.unknown or link.error <= LIMIT:
            return link
        begins = builder.exact.first_difference(case, case.component, graph.build, made_of.build)
        return dataclasses.replace(link, begins=begins)

    if made.outputs.differences:
        yield Link(BUILD, "graph", {}, differences=made.outputs.differences)
    if module is not None:
        whole = _Side(MODULE, module, as_held(module))
        link = _link(made, whole)
        if export is None or is_export or link.unknown or link.error <= LIMIT:
            yield located(link, made, whole)
            return
        exported = _Side(EXPORT, export, outputs(export))  # which of the two makes another function of it
        as_is = _Side(MODULE, module, outputs(module))
        yield located(_link(exported, as_is), exported, as_is)
    if export is not None:
        unfused = _Side(EXPORT, export, as_held(export))
        yield located(_link(made, unfused), made, unfused)


def _link(one: _Side, other: _Side) -> Link:
    unknown = one.outputs.unknown or other.outputs.unknown
    return Link(one.word, other.word, {} if unknown else _errors(one.outputs, other.outputs), unknown)


def _begins(located: Located | None) -> str:
    """Say where two sides begin to differ; empty where nobody can tell."""
    if located is None or located.location is None:
        return ""
    others = f", after {', '.join(located.section[:-1])}" if len(located.section) > 1 else ""
    return f" from {named(located.location)} on{others}"


def _check_has_values(subject: CaseBuild) -> None:
    """Refuse a graph that no weights and inputs determine; what a quantized weight stands for counts as one."""
    if subject.builder.settings.selection.weights == NONE:
        raise NoReferenceError(f"--sdperf-weights={NONE} builds graphs without values: there is nothing to compute")
    counted = {name: nodes for name, nodes in subject.counts.items() if not name.endswith(_STORED)}
    for why in (drawing(subject.counts), quantized(counted)):
        if why:
            raise NoReferenceError(f"the graph holds {why}: it is no function of its inputs and its module's weights")


def _export_of(case: Case, builder: Builder) -> Build | None:
    """Return the float32 graph that a build was made of; None for one that was made elsewhere."""
    if builder.reference is not None:
        return builder.unfused_reference(case, case.component, dtype="float32")
    if builder.external is not None:
        return None
    return builder.build(dataclasses.replace(case, optimization=ladder.BASE, fuser=""), case.component)


def _errors(obtained: Exact, expected: Exact) -> dict[str, float]:
    return {
        name: relative_l2(obtained.outputs[name], array)
        if name in obtained.outputs and obtained.outputs[name].shape == array.shape
        else math.inf
        for name, array in expected.outputs.items()
    }
