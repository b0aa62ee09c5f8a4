"""Builds of a pipeline that somebody exported: the first step takes its graph instead of exporting one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.fingerprint import library_versions, modules_of, source_hash
from pytest_sdperf.builds.interface import fit
from pytest_sdperf.builds.onnx_folder import ONNX_REFERENCE, OnnxFolder
from pytest_sdperf.builds.steps import exact_names, onnx_build
from pytest_sdperf.core import ladder
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.components import PIPELINE, component_dtype, parts_of
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Build, Case, Workload, to_json
from pytest_sdperf.fusing.record import Site, Standing
from pytest_sdperf.tasks import analyze, import_graph
from pytest_sdperf.tasks.analyze import GraphStructure
from pytest_sdperf.tasks.import_graph import Interface

Make = Callable[[str, Mapping[str, Any], str, Any, list[Registrar]], Entry]
_LIBRARIES = ("onnx", "onnxruntime", "onnx_ir")


@dataclasses.dataclass(frozen=True)
class ExternalGraphs:
    """The graphs of one folder.

    Attributes:
        folder: The folder.
        catalog: What is registered.
        make: Makes an entry of the cache: step, parts of its key, task, its request, registrars.
        fuse: Makes the entry of a fused graph from that of another one, as for every build.
    """

    folder: OnnxFolder
    catalog: Catalog
    make: Make
    fuse: Callable[..., Entry]

    def dtype(self, model: Model, component: str, optimization: str) -> str:
        """Return the dtype of a build of one component; of a pipeline, that of its latents."""
        if optimization == ladder.AS_IS:
            return self.folder.graph("unet" if component == PIPELINE else component).dtype
        asked = ladder.dtype_of(optimization, self.catalog.ladder)
        return asked if component == PIPELINE else component_dtype(model, component, asked)

    def optimizations(self, model: Model, component: str, optimization: str) -> tuple[str, ...]:
        """Return the optimizations whose operators a build holds: what is asked for, and what a graph brings along."""
        asked = ladder.optimizations(optimization, self.catalog.ladder)
        parts = parts_of(model, component)
        held = {
            name for part in parts for name in self.folder.graph(part).optimizations(self.catalog.optimizations.items())
        }
        return tuple(name for name in self.catalog.ladder if name in held or name in asked)

    def is_alone(self, component: str, optimization: str, *, has_module: bool) -> bool:
        """Say whether only the structure of a graph can tell what a build of it should hold.

        A torch module tells it where there is one, but nothing about a graph that was fused further than is asked.
        """
        held = self.folder.graph(component).optimizations(self.catalog.optimizations.items())
        asked = ladder.optimizations(optimization, self.catalog.ladder)
        return not has_module or optimization == ladder.AS_IS or not set(held) <= set(asked)

    def import_graph(self, model: Model, component: str, workload: Workload, *, dtype: str) -> Entry:
        """Return the entry of an external graph, checked and with the names and shapes of the model.

        Raises:
            OnnxFolderError: There is no such component, or its files cannot be used.
            BuildError: It does not fit the model or the dtype, or is not valid.
        """
        return self._import_graph(component, self.check(model, component, workload, dtype=dtype))

    def check(self, model: Model, component: str, workload: Workload, *, dtype: str) -> Interface:
        """Return how an external graph becomes one of the model; its weights are not read.

        Raises:
            OnnxFolderError: There is no such component, or its files cannot be used.
            BuildError: It does not fit the model or the dtype.
        """
        graph = self.folder.graph(component)
        if dtype == "float32" and graph.dtype != dtype:
            raise BuildError(
                f"{graph.path} has {graph.dtype} weights, and a float32 build was asked for. Type "
                f"--optimization={ladder.AS_IS} to take it as it is or --optimization={ladder.HALF} (or a later one) "
                f"to fuse it, or give a float32 export."
            )
        return self._fit(model, component, workload)

    def unfused(self, model: Model, component: str, workload: Workload, *, dtype: str) -> Build:
        """Return a float32 graph in some dtype, nothing fused: what a build of another folder is compared with.

        Raises:
            BuildError: The graph is not float32, does not fit the model, or is not valid.
        """
        entry = self._import_graph(component, self.check_reference(model, component, workload))
        if dtype == "float32":
            return onnx_build(entry, dtype=dtype)
        exact = exact_names(model, component, workload)
        half = self.fuse(entry, component, optimizations=(), dtype=dtype, float32=exact, fuser="native")
        return onnx_build(entry, half, dtype=dtype)

    def check_reference(self, model: Model, component: str, workload: Workload) -> Interface:
        """Return how a graph that others are compared with becomes one of the model; its weights are not read.

        Raises:
            OnnxFolderError: There is no such component, or its files cannot be used.
            BuildError: The graph is not float32, or does not fit the model.
        """
        graph = self.folder.graph(component)
        if graph.dtype != "float32":
            raise BuildError(
                f"{graph.path} has {graph.dtype} weights and cannot be a reference. Give a float32 export with "
                f"{ONNX_REFERENCE}=FOLDER, or torch weights with --sdperf-weights=FOLDER."
            )
        return self._fit(model, component, workload)

    def check_case(self, case: Case) -> None:
        """Check every graph that a case is built from. Raises as `check` does."""
        model = self.catalog.models.get(case.model)
        for part in parts_of(model, case.component):
            self.check(model, part, case.workload, dtype=self.dtype(model, part, case.optimization))

    def check_reference_of(self, case: Case) -> None:
        """Check every graph that a case is compared with. Raises as `check_reference` does."""
        model = self.catalog.models.get(case.model)
        for part in parts_of(model, case.component):
            self.check_reference(model, part, case.workload)

    def _fit(self, model: Model, component: str, workload: Workload) -> Interface:
        others = self.catalog.models.items().values()
        return fit(self.folder.graph(component), model, component, workload, others=others)

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

    def standing(self, model: Model, component: str) -> dict[str, dict[str, str]]:
        """Return component -> optimization -> how it stands in the graph as it is; all components of a pipeline."""
        parts = parts_of(model, component)
        return {part: self._standing(part, self.analyze(part, ladder.AS_IS).optimizations) for part in parts}

    def places(self, component: str) -> list[Site]:
        """Return where something could be fused in a graph as it is, and what that would be."""
        return list(self.analyze(component, ladder.AS_IS).places)

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
