"""Builds of the same graphs with random numbers in place of weights: what a fuser does wrong, it does to these too."""

from __future__ import annotations

from pytest_sdperf.building import steps
from pytest_sdperf.building.builder import Builder
from pytest_sdperf.building.cache import Entry
from pytest_sdperf.building.fingerprint import library_versions, source_hash
from pytest_sdperf.building.planted import PlantedBuilder
from pytest_sdperf.faults.fault import Place
from pytest_sdperf.tasks import export, redraw

_SEED = 0


class _Redrawing(Builder):
    """Draws the weights of a graph anew where it has just been exported, or taken from somebody's folder."""

    def reached(self, place: Place, entry: Entry, component: str) -> Entry:
        """Return the entry with other weights, and with what is planted into it."""
        if place is Place.WEIGHTS and (entry.path / export.FILE).is_file():
            parts = {
                "of": entry.digest,
                "seed": _SEED,
                "code": source_hash(redraw.__name__, "pytest_sdperf.tracing.redrawn"),
                "versions": library_versions(*steps.FUSE_LIBRARIES["native"]),
            }
            arguments = {"source": str(entry.path / export.FILE), "seed": _SEED}
            entry = self._make("redraw", parts, f"{redraw.__name__}:run", arguments, [])
        return super().reached(place, entry, component)


class RedrawnBuilder(_Redrawing):
    """Builds what nothing is planted into."""


class PlantedRedrawnBuilder(_Redrawing, PlantedBuilder):
    """Plants the same fault as another `PlantedBuilder`."""
