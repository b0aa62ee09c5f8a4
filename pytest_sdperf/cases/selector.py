"""Which cases a test gets: what the command line names, what its marker names, and the defaults of the machine."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_sdperf.builds.onnx_folder import OnnxFolder
from pytest_sdperf.builds.weights_identity import NONE, weights_identity
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.case_ids import case_id
from pytest_sdperf.cases.external import ExternalCases
from pytest_sdperf.cases.narrowing import NothingLeftError, narrow, nothing_left
from pytest_sdperf.cases.options.engine_requests import Profile, parse_engines
from pytest_sdperf.cases.options.lookups import components_of
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.core import ladder
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.contracts import Engine, Model
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.core.settings import EngineRequest, Selection
from pytest_sdperf.core.values import Case

DEFAULT_MODELS: Mapping[DeviceKind, str] = {"cpu": "sd15-thin", "cuda": "sd15", "rocm": "sd15"}
DEFAULT_ENGINES: Mapping[DeviceKind, Sequence[str]] = {
    "cpu": ("torch", "ort-cpu"),
    "cuda": ("torch", "ort-cuda"),
    "rocm": ("torch", "ort-migraphx"),
}
DEFAULT_FUSER, DEFAULT_SHAPES = "native", "static"
# A test of graphs alone compares what the project can fuse with what most users have.
BUILD_FUSERS = ("native", "ort")


@dataclass(frozen=True)
class Choice:
    """One parameter of a test.

    Attributes:
        id: Text between the brackets of the test id.
        case: None if nothing is left to run.
        skip: Why it cannot run here; empty if it can.
        request: The engine of the case with its interpreter and environment; None where it has no engine.
    """

    id: str
    case: Case | None
    skip: str = ""
    request: EngineRequest | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Selector:
    """Chooses the cases of every test of one run.

    Attributes:
        selection: What the command line names.
        catalog: What is registered.
        profiles: Profiles of the project, by name.
        device_kind: Kind of the device that the run asks for.
    """

    selection: Selection
    catalog: Catalog
    profiles: Mapping[str, Profile]
    device_kind: DeviceKind

    def choose(self, axes: Axes, marks: Marks, *, timed: bool = False) -> tuple[Choice, ...]:
        """Return the parameters of one test; at least one, if only to say why nothing runs.

        Args:
            axes: Which axes its fixtures need.
            marks: What its marker says.
            timed: Whether it measures: what only a lowered graph can show is no speed of the engine.

        Raises:
            OptionError: The marker holds a value that cannot be understood.
            UnknownNameError: The marker names something that is not registered.
        """
        try:
            return tuple(dict.fromkeys(self._choices(axes, marks, timed=timed)))
        except NothingLeftError as nothing:
            return (Choice("nothing", None, str(nothing)),)

    def _choices(self, axes: Axes, marks: Marks, *, timed: bool) -> Iterator[Choice]:
        models = narrow("model", self.selection.models, marks.models, (DEFAULT_MODELS[self.device_kind],))
        for model in map(self.catalog.models.get, models):
            if axes is Axes.MODEL:
                yield self.choice(self._blank(model, ""), None, timed=timed)
                continue
            for component in self._components(axes, marks, model):
                blank = self._blank(model, component)
                for case, request in self._builds(marks, blank) if axes is Axes.BUILD else self._runs(marks, blank):
                    yield self.choice(case, request, timed=timed)

    def _builds(self, marks: Marks, blank: Case) -> Iterator[tuple[Case, None]]:
        # The last optimization holds what every other one adds: `--optimization=ladder` says where it was lost.
        optimizations = self._optimizations(marks, self.catalog.ladder[-1:])
        for optimization, fuser, batch_size in itertools.product(
            optimizations, self._fusers(BUILD_FUSERS), self._batch_sizes(marks)
        ):
            graph = self.graph(blank, fuser, shapes=self._shapes(marks))
            yield self.optimized(replace(graph, batch_size=batch_size), optimization), None

    def _runs(self, marks: Marks, blank: Case) -> Iterator[tuple[Case, EngineRequest]]:
        for request in self._engines(marks):
            engine = self.catalog.engines.get(request.engine)
            case = replace(blank, engine=request.label, engine_options=request.options)
            fusers = self._fusers((DEFAULT_FUSER,)) if engine.consumes == "onnx" else ()
            shapes = self._shapes(marks)
            graphs = [self.graph(case, fuser, shapes=shapes) for fuser in fusers] or [case]
            optimizations = self._optimizations(marks, self._usual(engine, blank))
            if blank.component == PIPELINE:
                optimizations = self._ends(optimizations, marks, engine)
            for optimization, graph, batch_size in itertools.product(optimizations, graphs, self._batch_sizes(marks)):
                yield self.optimized(replace(graph, batch_size=batch_size), optimization), request

    def _blank(self, model: Model, component: str) -> Case:
        asked = self.selection
        whole = component == PIPELINE
        return Case(
            model=model.name,
            component=component,
            engine="",
            optimization="",
            weights=self._identity(asked.weights_of(model)),
            height=asked.height or model.height,
            width=asked.width or model.width,
            steps=(asked.steps or model.steps) if whole else 0,
            scheduler=(asked.scheduler or model.scheduler) if whole else "",
        )

    @functools.cached_property
    def _identity(self) -> Callable[[str], str]:
        """What identifies weights; files are read for it, so once per run."""
        return functools.cache(weights_identity)

    def graph(self, case: Case, fuser: str, *, shapes: str = "") -> Case:
        """Return a case with the graph that the command line asks for, fused by `fuser`; `shapes` are a test's own."""
        asked = self.selection
        if self.external is not None:
            return self.external.described(case, fuser)
        shapes = shapes or asked.shapes or DEFAULT_SHAPES
        return replace(case, fuser=fuser, exporter=asked.exporter, opset=asked.opset, shapes=shapes)

    def optimized(self, case: Case, optimization: str) -> Case:
        """Return a case at another optimization; nothing fuses a graph that is taken as it is."""
        fuser = "" if optimization == ladder.AS_IS else case.fuser
        half = case.exporter and ladder.dtype_of(optimization, self.catalog.ladder) != "float32"
        kept = self.selection.fp32_ops_of(case.component) if half else ()
        return replace(case, optimization=optimization, fuser=fuser, fp32_ops=",".join(kept))

    @functools.cached_property
    def external(self) -> ExternalCases | None:
        """What `--onnx-dir` gives; None where models are exported."""
        folder = self.selection.onnx_dir
        return None if folder is None else ExternalCases(OnnxFolder(folder), self.selection, self.catalog)

    def choice(self, case: Case, request: EngineRequest | None, *, timed: bool) -> Choice:
        """Return a case as a test's parameter, with why it cannot run here."""
        model = self.catalog.models.get(case.model)
        standard = Selection()
        usual = Case(
            model="",
            component="",
            engine="",
            optimization="",
            fuser=DEFAULT_FUSER,
            exporter=standard.exporter,
            opset=standard.opset,
            shapes=DEFAULT_SHAPES,
            weights=self._identity(standard.weights_of(model)),
            height=model.height,
            width=model.width,
            steps=model.steps,
            scheduler=model.scheduler,
        )
        return Choice(case_id(case, usual=usual), case, self._why_not(case, model, request, timed=timed), request)

    def _why_not(self, case: Case, model: Model, request: EngineRequest | None, *, timed: bool) -> str:
        if case.component not in ("", PIPELINE, *model.components):
            return f"{model.name} has no component {case.component!r}; it has {', '.join(model.components)}"
        if case.fuser == "ort" and self.selection.weights == NONE:
            return (
                "not applicable: the optimizer of onnxruntime reads weights, and here are none (--sdperf-weights=none)"
            )
        engine = self.catalog.engines.get(request.engine) if request else None
        refused = self.external.why_not(case, engine, timed=timed) if self.external and case.component else ""
        if refused or request is None or engine is None:
            return refused
        if self.device_kind not in engine.device_kinds:
            return f"{engine.name} runs on {' and '.join(engine.device_kinds)}, not on {self.device_kind}"
        for optimization in ladder.optimizations(case.optimization, self.catalog.ladder):
            refusal = engine.refuses(optimization, timed=timed)
            if refusal is not None:
                return f"not applicable: {refusal}"
        return "" if request.by_name else missing_here(engine, request, self.device_kind) or ""

    def _components(self, axes: Axes, marks: Marks, model: Model) -> Sequence[str]:
        known = components_of(self.catalog)
        for name in marks.components or ():
            if name not in known:
                raise UnknownNameError("component", name, known)
        default = model.components if axes is Axes.BUILD else ("unet", PIPELINE)
        chosen = narrow("component", self.selection.components, marks.components, default)
        if axes is Axes.ENGINE:
            return chosen
        # A pipeline is several builds, each a component of its own.
        built = [component for component in chosen if component != PIPELINE]
        if not built and not model.components:
            raise NothingLeftError("not applicable: a pipeline of your own is not exported, so there is no graph")
        if not built:
            raise NothingLeftError("a pipeline has no graph of its own; name a component, such as unet")
        return built

    def _engines(self, marks: Marks) -> Sequence[EngineRequest]:
        named = self.selection.engines
        text = ",".join(marks.engines or [name for name in self._default_engines() if not named])
        if not text:
            return named
        # A marker or a default is not a demand: where the engine cannot run, the test is skipped.
        others = parse_engines(text, self.catalog, self.profiles, device_kind=self.device_kind, by_name=False)
        if not named:
            return others
        common = [request for request in named if any(_is_for(other, request) for other in others)]
        if not common:
            raise NothingLeftError(nothing_left("engine", [request.label for request in named], marks.engines or ()))
        return common

    def _default_engines(self) -> Sequence[str]:
        names = [name for name in DEFAULT_ENGINES[self.device_kind] if name in self.catalog.engines.names]
        if not names:
            raise NothingLeftError(f"no engine of {', '.join(DEFAULT_ENGINES[self.device_kind])} is registered")
        return names

    def _optimizations(self, marks: Marks, default: Sequence[str]) -> Sequence[str]:
        marked = (
            ladder.parse_optimizations(
                ",".join(marks.optimizations), self.catalog.ladder, as_is=self.external is not None
            )
            if marks.optimizations
            else None
        )
        return narrow("optimization", self.selection.optimizations, marked, default)

    def _usual(self, engine: Engine, blank: Case) -> Sequence[str]:
        """Return the optimizations that an engine runs unless others are named, without what it has no kernels for."""
        optimizations = engine.default_optimizations(self.device_kind)
        if self.external is not None or blank.component not in ("unet", PIPELINE):
            return optimizations
        missing = engine.without_kernels(self.catalog.models.get(blank.model))
        return tuple(ladder.without(optimization, missing, self.catalog.ladder) for optimization in optimizations)

    def _ends(self, optimizations: Sequence[str], marks: Marks, engine: Engine) -> Sequence[str]:
        """Return those of whole requests: of a ladder the first and the last, unless somebody named `pipeline`."""
        if PIPELINE in (*self.selection.components, *(marks.components or ())) or marks.optimizations:
            return optimizations
        steps = self.catalog.ladder
        return ladder.ends(
            optimizations,
            self.selection.unnamed_optimizations,
            fits=lambda name: all(engine.supports(step) is None for step in ladder.optimizations(name, steps)),
        )

    def _batch_sizes(self, marks: Marks) -> Sequence[int]:
        return narrow("batch size", self.selection.batch_sizes, marks.batch_sizes, (1,))

    def _shapes(self, marks: Marks) -> str:
        named = (self.selection.shapes,) if self.selection.shapes else ()
        return narrow("shapes", named, marks.shapes, (DEFAULT_SHAPES,))[0]

    def _fusers(self, default: Sequence[str]) -> Sequence[str]:
        return self.selection.fusers or default


def missing_here(engine: Engine, request: EngineRequest, device_kind: DeviceKind) -> str | None:
    """Say what the engine lacks in this interpreter; None if nothing, or if a profile's interpreter will run it."""
    if request.python is not None:
        return None
    options = engine.all_options(dict(request.options))
    return engine.missing(device_kind) or engine.refuses_options(options, device_kind)


def _is_for(marked: EngineRequest, named: EngineRequest) -> bool:
    """Whether a test for `marked` is also one for `named`: the same engine, and the marker's options if it has any."""
    same = marked.label in {named.label, named.engine}
    return same and set(marked.options) <= set(named.options)
