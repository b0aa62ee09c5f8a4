"""Name -> thing, per kind. Filled through the hook `pytest_sdperf_register`, in the suite and in every worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_sdperf.core.alteration import Alteration
from pytest_sdperf.core.contracts import Engine, Model, Optimization
from pytest_sdperf.core.device import DeviceProbe
from pytest_sdperf.core.errors import DuplicateNameError, UnknownNameError
from pytest_sdperf.core.metric import Metric

if TYPE_CHECKING:
    from pytest_sdperf.core.check import Check  # only the suite asks anything of one

T = TypeVar("T")


@dataclass(frozen=True)
class Registrar:
    """The module whose `pytest_sdperf_register` added a thing; a worker imports it again to get the thing.

    Attributes:
        module: Dotted name, such as `pytest_sdperf.builtins` or `conftest`.
        root: File or folder of its top-level package, by which a foreign interpreter finds it.
    """

    module: str
    root: Path


class Registry(Generic[T]):
    """The things of one kind, in the order of registration.

    Args:
        kind: What each of them is.
        listed_by: The command that lists them, where they are too many for a message.
    """

    def __init__(self, kind: str, *, listed_by: str = "") -> None:
        self.kind, self.listed_by = kind, listed_by
        self._things: dict[str, T] = {}
        self._owners: dict[str, Registrar] = {}

    def add(self, name: str, thing: T, owner: Registrar, *, aliases: Iterable[str] = ()) -> None:
        """Put one thing on the shelf.

        Args:
            name: Its name.
            thing: The thing.
            owner: Who registered it.
            aliases: Further names, which nothing else can then have.

        Raises:
            DuplicateNameError: A name is taken; the message names both modules.
        """
        for new in (name, *aliases):
            if new in self._owners:
                raise DuplicateNameError(
                    f"{self.kind} {new!r} is registered twice: by {self._owners[new].module} and by {owner.module}. "
                    f"Rename one of them."
                )
            self._owners[new] = owner
        self._things[name] = thing

    def get(self, name: str) -> T:
        """Return the thing called `name`.

        Raises:
            UnknownNameError: With the nearest name and the whole list.
        """
        try:
            return self._things[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._things, listed_by=self.listed_by) from None

    def owner(self, name: str) -> Registrar:
        """Return who registered `name`."""
        self.get(name)
        return self._owners[name]

    def items(self) -> Mapping[str, T]:
        """Return a copy: name -> thing."""
        return dict(self._things)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, in the order of registration."""
        return tuple(self._things)


@dataclass
class Catalog:
    """Everything that was registered.

    Example, in a root `conftest.py`::

        def pytest_sdperf_register(catalog):
            catalog.add_engine(AcmeEngine())
    """

    engines: Registry[Engine] = field(default_factory=lambda: Registry("engine"))
    models: Registry[Model] = field(default_factory=lambda: Registry("model"))
    optimizations: Registry[Optimization] = field(default_factory=lambda: Registry("optimization"))
    metrics: Registry[Metric] = field(default_factory=lambda: Registry("metric"))
    checks: Registry[Check] = field(default_factory=lambda: Registry("check"))
    probes: Registry[DeviceProbe] = field(default_factory=lambda: Registry("device probe"))
    alterations: Registry[Alteration] = field(default_factory=lambda: Registry("fault", listed_by="sdperf faults"))
    baseline_folders: list[Path] = field(default_factory=list)
    _owner: Registrar = Registrar("pytest_sdperf", Path(__file__).parents[1])

    @contextlib.contextmanager
    def owned_by(self, registrar: Registrar) -> Iterator[None]:
        """Record `registrar` as the owner of everything added inside the context."""
        before, self._owner = self._owner, registrar
        try:
            yield
        finally:
            self._owner = before

    def add_engine(self, engine: Engine) -> None:
        """Register an engine."""
        self.engines.add(engine.name, engine, self._owner, aliases=engine.aliases)

    def add_model(self, model: Model) -> None:
        """Register a model."""
        self.models.add(model.name, model, self._owner)

    def add_optimization(self, optimization: Optimization) -> None:
        """Register an optimization of the ladder."""
        self.optimizations.add(optimization.name, optimization, self._owner)

    def add_metric(self, metric: Metric) -> None:
        """Register a metric."""
        self.metrics.add(metric.name, metric, self._owner)

    def add_check(self, check: Check) -> None:
        """Register a check, whose fixture is `sdperf_NAME`."""
        self.checks.add(check.name, check, self._owner)

    def add_device_probe(self, probe: DeviceProbe) -> None:
        """Register a source of devices."""
        self.probes.add(probe.name, probe, self._owner)

    def add_alteration(self, alteration: Alteration) -> None:
        """Register something that alters a run."""
        self.alterations.add(alteration.name, alteration, self._owner)

    def alteration(self, name: str) -> Alteration:
        """Return what alters a run under this name; without a name, what leaves it as it is.

        Raises:
            UnknownNameError: With names that are like it.
        """
        return self.alterations.get(name) if name else Alteration()

    def add_baselines(self, folder: Path) -> None:
        """Register a directory of baseline files."""
        self.baseline_folders.append(folder)

    def engine_of(self, name: str) -> tuple[Engine, Mapping[str, str]]:
        """Return the engine that a name on the command line means, and the options that an alias stands for.

        Raises:
            UnknownNameError: With the nearest name and the whole list.
        """
        for engine in self.engines.items().values():
            if name in engine.aliases:
                return engine, engine.aliases[name]
        return self.engines.get(name), {}

    @property
    def engine_names(self) -> tuple[str, ...]:
        """Every name that means an engine, aliases included."""
        engines = self.engines.items()
        return tuple(name for own, engine in engines.items() for name in (own, *engine.aliases))

    @property
    def ladder(self) -> tuple[str, ...]:
        """Names of the optimizations, lowest first."""
        return tuple(sorted(self.optimizations.names, key=lambda name: self.optimizations.get(name).position))
