"""What an A/B compares a case with: the same work, with the engine, optimization or interpreter of the second side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_sdperf.cases.selector import DEFAULT_FUSER, Selector
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.settings import EngineRequest, OtherSide
from pytest_sdperf.core.values import Case


@dataclass(frozen=True)
class OtherCase:
    """The second side of one test.

    Attributes:
        case: What it executes.
        request: How.
        shared: Whether it loads the files of the first side.
        same: Whether it differs from the first side in nothing.
        told: The test's own name for the case.
        skip: Why it cannot run here; empty if it can.
    """

    case: Case
    request: EngineRequest
    shared: bool
    same: bool
    told: str
    skip: str = ""


def other_case(
    case: Case, request: EngineRequest, other: OtherSide, selector: Selector, *, timed: bool = True
) -> OtherCase:
    """Return the second side.

    Args:
        case: The first side.
        request: Its engine.
        other: What the second side has of its own.
        selector: Of the run.
        timed: Whether it is measured: what only a lowered graph can show is no speed of the engine.
    """
    asked = other.engine or request
    asked = replace(asked, python=other.python or asked.python)
    engines = selector.catalog.engines
    first, second = engines.get(request.engine), engines.get(asked.engine)
    found = replace(case, engine=asked.label, engine_options=asked.options)
    if second.consumes != first.consumes:
        found = replace(found, fuser="", exporter="", opset=0, shapes="")
        if second.consumes == "onnx":
            fusers = selector.selection.fusers
            found = selector.graph(found, fusers[0] if fusers else DEFAULT_FUSER)
    if other.optimization:
        found = selector.optimized(found, other.optimization)
    graph = ("optimization", "fuser", "exporter", "opset", "shapes", "weights")
    # An engine that fuses for itself gets another graph of the same optimization.
    one_graph = second.fuses == first.fuses and all(getattr(found, name) == getattr(case, name) for name in graph)
    same = found == case and (asked.python, asked.env) == (request.python, request.env)
    choice = selector.choice(found, asked, timed=timed)
    return OtherCase(found, asked, one_graph, same, choice.id, choice.skip)


def differing(others: Sequence[OtherCase]) -> Iterator[OtherCase]:
    """Yield the cases that can be compared.

    Raises:
        OptionError: Not one case differs on the second side.
    """
    if others and all(other.same for other in others):
        raise OptionError(
            f"both sides of the A/B are the same: {others[0].told}. Name another interpreter with --sdperf-ab=PYTHON, "
            f"or another build with --sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
        )
    yield from (other for other in others if not (other.same or other.skip))
