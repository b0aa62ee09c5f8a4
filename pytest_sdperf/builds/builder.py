"""model -> weights -> ONNX -> optimization -> artifact. Every step is a cache entry made in a process of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.altered import altered_entry
from pytest_sdperf.builds.cache import Cache, Entry
from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.exact import ExactValues
from pytest_sdperf.builds.expectations import total_budgets, total_counts, total_sites
from pytest_sdperf.builds.exporter import Exporter, TorchExporter
from pytest_sdperf.builds.external import FolderExporter, ReferenceExporter
from pytest_sdperf.builds.fingerprint import library_versions, modules_of, source_hash
from pytest_sdperf.builds.onnx_folder import OnnxFolder
from pytest_sdperf.builds.processes import forking
from pytest_sdperf.builds.processes.process import run_task
from pytest_sdperf.builds.weights_identity import NONE
from pytest_sdperf.builds.weights_source import Drawn, Folder, Nothing, find_source
from pytest_sdperf.builds.work import WorkCounter
from pytest_sdperf.core import ladder, progress
from pytest_sdperf.core.alteration import BuildStage
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.contracts import Engine, Model
from pytest_sdperf.core.errors import OptionError, SdperfError, UnknownNameError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Build, Case, to_json
from pytest_sdperf.tasks import expect, export, fuse_ort, lower, tokenizers, weights
from pytest_sdperf.tasks._fuse_graph import FuseGraph
from pytest_sdperf.tasks.expect import Expectations

FUSERS = {"native": "pytest_sdperf.tasks.fuse_native", "ort": "pytest_sdperf.tasks.fuse_ort"}
SHAPES = ("static", "dynamic")
_LIBRARIES = {"weights": forking.MODULES, "export": forking.EXPORTER} | dict.fromkeys(
    ["exact", "expect", "joints", "work"], forking.MODULES
)


class Builder:
    """Builds what engines load, through the cache: a second run builds nothing."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        cache: Cache,
        *,
        say: Callable[[str], None],
        folder: OnnxFolder | None = None,
        reference: OnnxFolder | None = None,
    ) -> None:
        self.catalog = catalog
        self.settings = settings
        self._cache = cache
        self._say = say
        # Graphs that are taken instead of exporting any, and graphs that they are compared with.
        self.external = FolderExporter(catalog, self._make, folder) if folder else None
        self.reference = ReferenceExporter(catalog, self._make, reference) if reference else None
        self._torch = TorchExporter(catalog, self._make, self._drawn)
        self.work = WorkCounter(catalog, self._make)
        self.exact = ExactValues(catalog, self._make)
        self._find_source = functools.cache(find_source)
        # What failed is not tried again in this run: builds are made ahead, and each test asks for its own again.
        self._failed: dict[str, SdperfError] = {}

    def _source(self, model: Model) -> Drawn | Folder | Nothing:
        return self._find_source(self.settings.selection.weights_of(model))

    def exporter(self, case: Case) -> Exporter:
        """Return what gives the graphs of a case, if it has any."""
        return self.external if self.external and case.exporter else self._torch

    def weights(self, model_name: str, component: str) -> Path:
        """Return a safetensors file with the float32 weights of a component.

        Raises:
            WeightsError: The folder given with `--weights` lacks the component, holds pickles or does not fit.
        """
        return self._weights(self.catalog.models.get(model_name), component).path / weights.FILE

    def build(
        self, case: Case, component: str, *, engine: Engine | None = None, fused: bool = True, altered: str = ""
    ) -> Build:
        """Return one built component of a case, from the cache if it is there; needs no device.

        Args:
            case: What is built.
            component: One of the case's components.
            engine: What will load it, a torch module or a graph, where primitives take the place of operators that it
                lacks; None for a graph that is only looked at.
            fused: Whether operators are fused; without, a graph is only brought to the precision of the selection.
            altered: Name of what alters the files on the way; empty for nothing.

        Raises:
            UnknownNameError: A model, optimization, fuser or exporter that does not exist.
            BuildError: The component could not be exported, optimized or checked.
            WorkerError: The process that builds crashed or took longer than `sdperf_build_timeout`.
            CacheError: The cache folder cannot be written, or the disk is full.
        """
        model, exporter = self.catalog.models.get(case.model), self.exporter(case)
        dtype = exporter.dtype(case, component)
        if engine is not None and engine.consumes == "module":
            weights = self._weights(model, component)
            return steps.module_build(self.after(BuildStage.WEIGHTS, weights, component, altered), dtype)
        if case.shapes not in SHAPES:
            raise OptionError(f"shapes {case.shapes!r} are not known. Choose one of: {', '.join(SHAPES)}.")
        made = exporter.export(case, component)
        for stage in (BuildStage.WEIGHTS, BuildStage.EXPORT):
            made[-1] = self.after(stage, made[-1], component, altered)
        optimizations = ladder.optimizations(case.optimization, self.catalog.ladder)
        if optimizations not in ((), (ladder.BASE,)):
            put_in = optimizations if fused and not (engine and engine.fuses) else ()
            made.append(self._fuse(made[-1], case, component, optimizations=put_in, dtype=dtype, fuser=case.fuser))
        made[-1] = self.after(BuildStage.GRAPH, made[-1], component, altered)
        lowered = engine is not None and any(map(engine.lowers, exporter.optimizations(case)))
        if lowered and steps.made_graph(made[-1]).graph.without_cpu_kernel:
            made.append(self._lower(made[-1], component))
        for entry in reversed(made):  # what others are made of is the last to go
            self._cache.use(entry)
        return steps.onnx_build(*made, dtype=dtype)

    def module(self, model_name: str, component: str) -> Build:
        """Return the weights of a component as an engine of torch modules loads them, in float32."""
        return steps.module_build(self._weights(self.catalog.models.get(model_name), component), "float32")

    def after(self, stage: BuildStage, entry: Entry, component: str, altered: str) -> Entry:
        """Return what a build goes on with after a stage: the entry, or one beside it with what alters it."""
        return altered_entry(stage, entry, component, altered, catalog=self.catalog, make=self._make, say=self._say)

    def unfused_reference(self, case: Case, component: str, *, dtype: str) -> Build:
        """Return a component of a case from `--onnx-reference` in some dtype, nothing fused.

        Raises:
            BuildError: The graph is not float32, does not fit the model, or is not valid.
        """
        assert self.reference is not None
        made = self.reference.export(case, component)
        if dtype != "float32":
            made.append(self._fuse(made[0], case, component, optimizations=(), dtype=dtype, fuser="native"))
        return steps.onnx_build(*made, dtype=dtype)

    def tokenizers(self, model_name: str) -> Path:
        """Return a folder with the tokenizer of each text encoder: `tokenizer`, `tokenizer_2`.

        Raises:
            WorkerError: The process that writes them crashed.
        """
        model = self.catalog.models.get(model_name)
        parts = {
            "encoders": [steps.identity(model, one) for one in model.components if one.startswith("text_encoder")],
            "source": self.external.tokenizers() if self.external else self._source(model).parts(),
            "code": source_hash(tokenizers.__name__),
        }
        folder = self.external.folder.path if self.external else self._source(model).arguments()["folder"]
        request = tokenizers.WriteTokenizers(model.name, folder)
        owners = [self.catalog.models.owner(model.name)]
        return self._make("tokenizers", parts, f"{tokenizers.__name__}:run", request, owners).path

    def expected_counts(self, model_name: str, component: str, optimization: str) -> Mapping[str, int]:
        """Return `domain::op_type` -> nodes that a fully optimized graph of this selection holds.

        Only ops that an optimization speaks of are listed; 0 means that none may be left. They are derived from the
        torch module, and where none stands for an external graph, from that graph.
        """
        counts: dict[str, int] = self._expected("counts", total_counts, model_name, component, optimization)
        return counts

    def expected_budgets(self, model_name: str, component: str, optimization: str) -> Mapping[str, int]:
        """Return `domain::op_type` of ONNX -> how many may be left at most; only a torch module tells it."""
        budgets: dict[str, int] = self._expected("budgets", total_budgets, model_name, component, optimization)
        return budgets

    def expected_sites(self, model_name: str, component: str, optimization: str) -> Mapping[str, Sequence[str]]:
        """Return `domain::op_type` -> paths of the sub-modules where `expected_counts` finds it."""
        sites: dict[str, list[str]] = self._expected("sites", total_sites, model_name, component, optimization)
        return sites

    def _expected(self, what: str, total: Callable[[Any], Any], *build: str) -> Any:
        """Return what an external graph tells where no torch module does, else the total of the optimizations."""
        model_name, component, optimization = build
        has_module = self.settings.selection.has_module
        if self.external is not None and self.external.is_alone(component, optimization, has_module=has_module):
            return getattr(self.external.analyze(component, optimization), what)
        found = getattr(self._expectations(self.catalog.models.get(model_name)), what)
        if component not in found:
            raise UnknownNameError(f"component of {model_name}", component, found)
        names = ladder.optimizations(optimization, self.catalog.ladder)
        return total((found[component][name], self.catalog.optimizations.get(name).takes_in) for name in names)

    def _weights(self, model: Model, component: str) -> Entry:
        parts = {
            **steps.identity(model, component),
            "source": self._source(model).parts(),
            "code": source_hash(weights.__name__),
            "versions": library_versions(*steps.MODULE_LIBRARIES),
        }
        request = weights.WriteWeights(model.name, component, **self._source(model).arguments())
        owners = [self.catalog.models.owner(model.name)]
        return self._make("weights", parts, f"{weights.__name__}:run", request, owners)

    def _drawn(self, model: Model, component: str) -> list[Entry]:
        return [] if self._source(model) == Nothing() else [self._weights(model, component)]

    def _fuse(
        self, exported: Entry, case: Case, component: str, *, optimizations: tuple[str, ...], dtype: str, fuser: str
    ) -> Entry:
        if fuser not in FUSERS:
            raise UnknownNameError("fuser", fuser, FUSERS)
        if fuser == "ort" and self.settings.selection.weights == NONE:
            raise OptionError(
                f"the optimizer of onnxruntime reads weights, and --sdperf-weights={NONE} builds graphs without. "
                f"Choose the fuser native, or leave --sdperf-weights out."
            )
        kept = steps.kept_ops(self.settings.selection, component, dtype)
        exact = steps.exact_names(self.catalog.models.get(case.model), component, case.workload)
        request = FuseGraph(exported.path / export.FILE, component, optimizations, dtype, exact, float32_ops=kept)
        parts = {
            **to_json(request),
            "source": exported.digest,
            "options": list(fuse_ort.ort_options(optimizations, self.catalog)) if fuser == "ort" else [],
            "code": source_hash(FUSERS[fuser], *modules_of(*map(self.catalog.optimizations.get, optimizations))),
            "versions": library_versions(*steps.FUSE_LIBRARIES[fuser]),
        }
        owners = [self.catalog.optimizations.owner(optimization) for optimization in optimizations]
        return self._make(f"fuse-{fuser}", parts, f"{FUSERS[fuser]}:run", request, owners)

    def _lower(self, fused: Entry, component: str) -> Entry:
        parts = {
            "fused": fused.digest,
            "code": source_hash(lower.__name__),
            "versions": library_versions(*steps.FUSE_LIBRARIES["native"]),
        }
        request = lower.LowerGraph(fused.path / export.FILE, component)
        return self._make("lower", parts, f"{lower.__name__}:run", request, [])

    def _expectations(self, model: Model) -> Expectations:
        optimizations = self.catalog.optimizations
        parts = {
            "components": {component: steps.identity(model, component) for component in model.components},
            "code": source_hash(expect.__name__, *modules_of(*optimizations.items().values())),
            "optimizations": list(optimizations.names),
            "versions": library_versions(*steps.MODULE_LIBRARIES),
        }
        owners = [self.catalog.models.owner(model.name), *(optimizations.owner(name) for name in optimizations.names)]
        request = expect.DeriveExpectations(model.name, steps.open_shapes(model))
        return convert(self._make("expect", parts, f"{expect.__name__}:run", request, owners).metadata, Expectations)

    def _make(
        self,
        step: str,
        parts: Mapping[str, Any],
        task: str,
        request: Any,
        owners: list[Registrar],
        *,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> Entry:
        def make(folder: Path) -> dict[str, Any]:
            answer = run_task(
                task,
                request,
                out_dir=folder,
                cache_dir=self._cache.folder,
                timeout_s=self.settings.build_timeout_s,
                registrars=list(dict.fromkeys(owners)),
                env={**forking.OFFLINE, **env},
                libraries=_LIBRARIES.get(step, forking.GRAPHS),
                in_process=self.settings.in_process,
                what=f"starting a process ({step})",
                option=progress.BUILD_TIMEOUT,
            )
            (folder / "stderr.txt").unlink(missing_ok=True)
            return answer

        key = f"{step}-{content_key(parts)}"
        if key in self._failed:
            raise self._failed[key]
        try:
            with steps.as_part_of_building(step):
                return self._cache.get_or_make(key, make)
        except SdperfError as error:
            self._failed[key] = error
            raise
