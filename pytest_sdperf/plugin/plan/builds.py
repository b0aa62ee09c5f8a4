"""The steps that build what a case loads: which of them the cache holds, and what the others will take of the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.inventory import Inventory, NotBuiltError
from pytest_sdperf.builds.weights_identity import NONE, OWN, RANDOM
from pytest_sdperf.core import ladder
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.components import component_dtype, parts_of
from pytest_sdperf.core.contracts import Engine
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.session import Session

Place = tuple[object, ...]
_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_SHRINKING = frozenset({"fuse-native", "fuse-ort", "lower"})  # the others hold float32


@dataclass(frozen=True)
class PlannedStep:
    """One step of a build.

    Attributes:
        kind: `weights`, `export`, `import`, `fuse-native`, `fuse-ort`, `lower`, `compile` or `expect`.
        place: Equal for equal steps: several cases share one.
        entry: What the cache holds; None where it has to be made.
        size_bytes: What it takes of the disk; None where nobody can tell.
        component: What it is a step of; empty for `expect`.
    """

    kind: str
    place: Place
    entry: Entry | None = None
    size_bytes: float | None = None
    component: str = ""


def builds_of_run(session: Session) -> Builds:
    """Return what finds the steps of the cases of a run; nothing is built."""
    run = session.run
    settings, weights = run.settings, run.settings.selection.weights
    inventory = Inventory(settings.cache_dir, size_bytes=settings.cache_size_bytes)
    builder = session.new_builder(inventory, say=lambda text: None)
    blind = weights not in {OWN, RANDOM, NONE} and not Path(weights).is_dir()
    return Builds(builder, inventory, run.catalog, blind=blind)


@dataclass(frozen=True)
class Builds:
    """Finds the steps of cases.

    Attributes:
        builder: Looks, and builds nothing: its cache is `inventory`.
        inventory: What the cache holds.
        catalog: What is registered.
        blind: Whether nothing is looked up: weights of a hub would be fetched to know what belongs to them.
    """

    builder: Builder
    inventory: Inventory
    catalog: Catalog
    blind: bool = False

    def of(self, case: Case, engine: Engine | None) -> tuple[PlannedStep, ...]:
        """Return every step of a case, in the order in which they are made.

        Args:
            case: The case.
            engine: What will load it; None for a graph that is only looked at.

        Raises:
            SdperfError: It cannot be built at all.
        """
        model = self.catalog.models.get(case.model)
        names = parts_of(model, case.component)
        return tuple(step for name in filter(None, names) for step in self._component(case, name, engine))

    def expectation(self, case: Case) -> PlannedStep:
        """Return the step that derives how many operators a build should hold."""
        self.inventory.seen.clear()
        found: Iterable[Entry] = ()
        with contextlib.suppress(NotBuiltError):
            self._look()
            self.builder.expected_counts(case.model, case.component, case.optimization)
            found = self.inventory.seen.values()
        return PlannedStep("expect", ("expect", case.model), next(iter(found), None), size_bytes=0.0)

    def _component(self, case: Case, name: str, engine: Engine | None) -> list[PlannedStep]:
        chain = self._chain(case, engine)
        self.inventory.seen.clear()
        with contextlib.suppress(NotBuiltError):
            self._look()
            self.builder.build(case, name, engine=engine)
            chain = [kind for kind in chain if kind in self.inventory.seen]
        return [self._of_component(kind, case, name) for kind in chain]

    def _look(self) -> None:
        if self.blind:
            raise NotBuiltError("anything")

    def _chain(self, case: Case, engine: Engine | None) -> list[str]:
        """Return the kinds of steps that may be needed; a lowered graph only if some operator has no kernel."""
        if engine is not None and engine.consumes == "module":
            return ["weights"]
        exporter = self.builder.exporter(case)
        chain = [kind for kind in exporter.kinds if kind != "weights" or case.weights != NONE]
        if ladder.optimizations(case.optimization, self.catalog.ladder) not in ((), (ladder.BASE,)):
            chain.append(f"fuse-{case.fuser}")
        if engine is not None and any(map(engine.lowers, exporter.optimizations(case))):
            chain.append("lower")
        return chain

    def _of_component(self, kind: str, case: Case, name: str) -> PlannedStep:
        place: Place = (kind, case.model, name, case.weights)
        if kind != "weights":
            fixed = (case.batch_size, case.height, case.width) if case.shapes == "static" else ()
            place = (*place, case.exporter, case.opset, case.shapes, *fixed)
        if kind.startswith(("fuse-", "lower")):
            place = (*place, case.optimization, case.fuser)
        entry = self.inventory.seen.get(kind)
        size_bytes = entry.size_bytes if entry is not None else self._bytes(kind, case, name)
        return PlannedStep(kind, place, entry, size_bytes, name)

    def _bytes(self, kind: str, case: Case, name: str) -> float | None:
        """Return what a step of a component will leave on the disk, by the number of its parameters."""
        model, asked = self.catalog.models.get(case.model), ladder.dtype_of(case.optimization, self.catalog.ladder)
        parameters = 0 if case.weights == NONE else model.parameters(name)
        dtype = component_dtype(model, name, asked) if kind in _SHRINKING else "float32"
        return None if parameters is None else float(parameters * _BYTES[dtype])
