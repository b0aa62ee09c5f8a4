"""Which entries of the cache the tests of a run still need: each is let go after the last test that may use it."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.components import parts_of
from pytest_sdperf.core.values import Case

Place = tuple[object, ...]
# Kind of an entry -> which cases share it: those of equal weights, of an equal graph, of an equal optimization of that
# graph, of an equal engine of that optimization. What is not listed is small, or expensive to make again, and stays
# until the end.
_LEVEL: Mapping[str, str] = MappingProxyType(
    {
        "weights": "weights",
        "export": "graph",
        "import": "graph",
        "fuse-native": "optimization",
        "fuse-ort": "optimization",
        "lower": "optimization",
        "compile": "engine",
    }
)


class ReferenceCounts:
    """Counts, for everything that tests may share, the tests that are still to come.

    The key of a build is known when what leads to it is built, and not when tests are collected. So what is counted is
    what decides the key: two cases that agree in it have equal builds.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._left: Counter[Place] = Counter()
        self._held: dict[str, set[Place]] = {}
        self._thread = threading.local()
        self._lock = threading.Lock()

    def expect(self, cases: Iterable[Case]) -> None:
        """Count the case of every test that will run."""
        for case in cases:
            self._left.update(place for places in self._places(case).values() for place in places)

    @contextlib.contextmanager
    def about(self, case: Case) -> Iterator[None]:
        """Take what this thread asks the cache for as something that a case needs."""
        before = getattr(self._thread, "places", None)
        self._thread.places = self._places(case)
        try:
            yield
        finally:
            self._thread.places = before

    def note(self, key: str) -> None:
        """Note that an entry was asked for; outside of `about` it belongs to nobody and stays."""
        places: Mapping[str, frozenset[Place]] | None = getattr(self._thread, "places", None)
        level = _LEVEL.get(key.rpartition("-")[0])
        if places is not None and level is not None:
            with self._lock:
                self._held.setdefault(key, set()).update(places[level])

    def finished(self, case: Case) -> frozenset[str]:
        """Note that a test of a case is over; return the keys that no test to come may need."""
        done = {place for places in self._places(case).values() for place in places if self._left[place]}
        self._left.subtract(done)
        over = {place for place in done if not self._left[place]}
        with self._lock:
            touched = {key: places for key, places in self._held.items() if places & over}
            free = frozenset(key for key, places in touched.items() if not any(self._left[place] for place in places))
            for key in free:
                del self._held[key]
        return free

    def _places(self, case: Case) -> Mapping[str, frozenset[Place]]:
        """Return level -> what cases have in common that share entries of it, one for each component."""
        fixed = (case.batch_size, case.height, case.width)
        graph = (case.exporter, case.opset, case.shapes, *(fixed if case.shapes == "static" else ()))
        optimization = (*graph, case.optimization, case.fuser, case.fp32_ops)
        own = {
            "weights": (),
            "graph": graph,
            "optimization": optimization,
            "engine": (*optimization, case.engine, case.engine_options, *fixed),
        }
        names = parts_of(self._catalog.models.get(case.model), case.component)
        parts = tuple(filter(None, names))
        return {
            level: frozenset((level, case.model, case.weights, part, *shared) for part in parts)
            for level, shared in own.items()
        }
