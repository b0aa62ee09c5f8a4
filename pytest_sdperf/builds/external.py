"""Builds of a pipeline that somebody exported: the first step takes its graph instead of exporting one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.exporter import Exporter
from pytest_sdperf.builds.fingerprint import library_versions, modules_of, source_hash
from pytest_sdperf.builds.interface import fit
from pytest_sdperf.builds.onnx_folder import ONNX_REFERENCE, OnnxFolder
from pytest_sdperf.core import ladder
from pytest_sdperf.core.components import PIPELINE, parts_of
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Case, to_json
from pytest_sdperf.fusing.record import Site, Standing
from pytest_sdperf.tasks import analyze, import_graph
from pytest_sdperf.tasks.analyze import GraphStructure
from pytest_sdperf.tasks.import_graph import Interface

_LIBRARIES = ("onnx", "onnxruntime", "onnx_ir")


@dataclasses.dataclass(frozen=True)
class FolderExporter(Exporter):
    """Takes the graphs of one folder.

    Attributes:
        folder: The folder.
    """

    folder: OnnxFolder
    kinds = ("import",)

    def dtype(self, case: Case, component: str) -> str:
        """Return the dtype of a build of one component; a graph that is taken as it is has its own."""
        if case.optimization == ladder.AS_IS:
            return self.folder.graph("unet" if component == PIPELINE else component).dtype
        return super().dtype(case, component)

    def optimizations(self, case: Case) -> tuple[str, ...]:
        """Return the optimizations whose operators a build holds: what is asked for, and what a graph brings along."""
        known, asked = self.catalog.optimizations.items(), super().optimizations(case)
        held = {name for part in self._parts(case) for name in self.folder.graph(part).optimizations(known)}
        return tuple(name for name in self.catalog.ladder if name in held or name in asked)

    def is_alone(self, component: str, optimization: str, *, has_module: bool) -> bool:
        """Say whether only the structure of a graph can tell what a build of it should hold.

        A torch module tells it where there is one, but nothing about a graph that was fused further than is asked.
        """
        held = self.folder.graph(component).optimizations(self.catalog.optimizations.items())
        asked = ladder.optimizations(optimization, self.catalog.ladder)
        return not has_module or optimization == ladder.AS_IS or not set(held) <= set(asked)

    def export(self, case: Case, component: str) -> list[Entry]:
        """Return the entry of an external graph, checked and with the names and shapes of the model.

        Raises:
            OnnxFolderError: There is no such component, or its files cannot be used.
            BuildError: It does not fit the model or the dtype, or is not valid.
        """
        return [self._import_graph(component, self._interface(case, component))]

    def check_case(self, case: Case) -> None:
        """Check every graph of a case; their weights are not read. Raises as `export` does."""
        for part in self._parts(case):
            self._interface(case, part)

    def _parts(self, case: Case) -> tuple[str, ...]:
        return parts_of(self.catalog.models.get(case.model), case.component)

    def _interface(self, case: Case, component: str) -> Interface:
        """Return how an external graph becomes one of the model."""
        graph, dtype = self.folder.graph(component), self.dtype(case, component)
        if dtype == "float32" and graph.dtype != dtype:
            raise BuildError(
                f"{graph.path} has {graph.dtype} weights, and a float32 build was asked for. Type "
                f"--optimization={ladder.AS_IS} to take it as it is or --optimization={ladder.HALF} (or a later one) "
                f"to fuse it, or give a float32 export."
            )
        return self._fit(case, component)

    def _fit(self, case: Case, component: str) -> Interface:
        models = self.catalog.models
        graph, others = self.folder.graph(component), models.items().values()
        return fit(graph, models.get(case.model), component, case.workload, others=others)

    def _import_graph(self, component: str, interface: Interface) -> Entry:
        graph = self.folder.graph(component)
        parts = {
            "component": component,
            "data": list(graph.data),
            **to_json(interface),
            "files": graph.digest,
            "code": source_hash(import_graph.__name__),
            "versions": library_versions(*_LIBRARIES),
        }
        request = import_graph.ImportGraph(graph.path, component, graph.data, interface)
        return self.make("import", parts, f"{import_graph.__name__}:run", request, [])

    def analyze(self, component: str, optimization: str) -> GraphStructure:
        """Return what the structure of a graph tells.

        Args:
            component: One of the folder.
            optimization: A selection of optimizations; `as-is` looks at all of them.
        """
        as_is = optimization == ladder.AS_IS
        names = self.catalog.ladder if as_is else ladder.optimizations(optimization, self.catalog.ladder)
        graph = self.folder.graph(component)
        things = [self.catalog.optimizations.get(name) for name in names]
        parts = {
            "component": component,
            "optimizations": list(names),
            "files": graph.digest,
            "code": source_hash(analyze.__name__, "pytest_sdperf.fusing.analysis", *modules_of(*things)),
            "versions": library_versions("onnx_ir", "numpy"),
        }
        owners = [self.catalog.optimizations.owner(name) for name in names]
        request = analyze.AnalyzeGraph(graph.path, component, tuple(names))
        return convert(self.make("analyze", parts, f"{analyze.__name__}:run", request, owners).metadata, GraphStructure)

    def standing(self, case: Case) -> Mapping[str, Mapping[str, str]]:
        """Return how the optimizations stand in every component of a case."""
        parts = self._parts(case) if case.optimization == ladder.AS_IS else ()
        return {part: self._standing(part, self.analyze(part, ladder.AS_IS).optimizations) for part in parts}

    def places(self, case: Case) -> Sequence[Site] | None:
        """Return where something could be fused in the graph of a component."""
        return self.analyze(case.component, ladder.AS_IS).places if case.optimization == ladder.AS_IS else None

    def _standing(self, component: str, optimizations: Mapping[str, Standing]) -> dict[str, str]:
        graph = self.folder.graph(component)
        return {
            optimization: _standing(
                graph.dtype if optimization == ladder.HALF else "",
                optimizations[optimization],
                quantized=graph.quantized,
            )
            for optimization in self.catalog.ladder
            if optimization in optimizations
        }

    def tokenizers(self) -> list[list[object]]:
        """Return what identifies the tokenizers that the folder may hold."""
        files = sorted(path for path in self.folder.path.glob("tokenizer*/*") if path.is_file())
        names = [path.relative_to(self.folder.path).as_posix() for path in files]
        return [[name, path.stat().st_size, path.stat().st_mtime_ns] for name, path in zip(names, files, strict=True)]


class ReferenceExporter(FolderExporter):
    """Takes the graphs of a folder that others are compared with: they have to be float32."""

    def _interface(self, case: Case, component: str) -> Interface:
        graph = self.folder.graph(component)
        if graph.dtype != "float32":
            raise BuildError(
                f"{graph.path} has {graph.dtype} weights and cannot be a reference. Give a float32 export with "
                f"{ONNX_REFERENCE}=FOLDER, or torch weights with --sdperf-weights=FOLDER."
            )
        return self._fit(case, component)


def _standing(dtype: str, found: Standing, *, quantized: str) -> str:
    """Say how an optimization stands: `yes`, `no (98 Conv left)`, `partly (...)` or `has nothing to fuse`.

    Args:
        dtype: Dtype of the graph, for the optimization that converts it; else empty.
        found: Where it was applied, and where not.
        quantized: What is quantized in the graph, if anything.
    """
    left = [f"{nodes} {op_type} left" for op_type, nodes in found.left.items()]
    also = f"{dtype} and quantized weights, {quantized}" if quantized else f"{dtype} weights"
    left = [also, *left] if dtype not in ("", "float16") else left
    present = found.present or dtype == "float16"
    if not left:
        return "yes" if present else "has nothing to fuse"
    return f"{'partly' if present else 'no'} ({', '.join(left)})"
