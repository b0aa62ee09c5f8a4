"""What kinds of graphs are compared: those that draw random numbers cannot be, those of 8 bits are told to be."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.external import FolderExporter
from pytest_sdperf.builds.external_graph import ExternalGraph
from pytest_sdperf.fusing.graph_kinds import drawing


def why_random(runner: CaseRunner, *, reference: bool = True) -> str:
    """Return why nothing can be compared, as a sentence: a graph draws random numbers; empty if none does.

    Args:
        runner: What is compared.
        reference: Whether with a reference, which may be a graph as well.
    """
    builder = runner.context.builder
    sides = [("", builder.external)] + ([("reference of the ", builder.reference)] if reference else [])
    for what, external in sides:
        for component, graph in _graphs(runner, external):
            if said := drawing(graph.counts):
                return (
                    f"the {what}{component} draws random numbers ({said}): every process begins them alike and every "
                    f"call goes on with others, so no two answers say anything about each other. Export it with its "
                    f"noise as an input, or without what draws: of a VAE encoder the mean and the deviation."
                )
    return ""


def told_of_quantized(runner: CaseRunner) -> str:
    """Return what is to be known of the limit of graphs of quantized numbers, as a sentence; mostly empty."""
    for component, graph in _graphs(runner, runner.context.builder.external):
        if graph.quantized:
            return (
                f"The {component} is quantized ({graph.quantized}). Numbers of so few bits are farther from the "
                f"reference than {runner.dtype}, whose limit this is: what a quantizer costs is no fault of the "
                f"engine."
            )
    return ""


def _graphs(runner: CaseRunner, external: FolderExporter | None) -> Iterator[tuple[str, ExternalGraph]]:
    """Yield the components of a case that a folder holds, if its engine runs graphs."""
    if external is not None and runner.engine.consumes == "onnx":
        for name in runner.components:
            if name in external.folder.components:
                yield name, external.folder.graph(name)
