"""Builds with a fault in them: each is an entry of its own beside the one that has none."""

from __future__ import annotations

from typing import Any

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import FaultStage
from pytest_sdperf.tasks import export, plant, weights


class PlantedBuilder(Builder):
    """Builds as ever, and plants a fault where the builder says that a place is reached.

    What expectations, references and tokenizers are made from stays as it is.
    """

    def __init__(self, fault: str, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._fault = known.get(fault)

    def reached(self, place: FaultStage, entry: Entry, component: str) -> Entry:
        """Return the entry with the fault in it; itself where the fault has no place there."""
        fault = self._fault
        if place is not fault.place or fault.component not in ("", component):
            return entry
        parts = {
            "fault": fault.name,
            "into": entry.digest,
            "code": source_hash(plant.__name__, "pytest_sdperf.faults.known"),
            "versions": library_versions(*steps.FUSE_LIBRARIES["native"]),
        }
        file = next(name for name in (export.FILE, weights.FILE) if (entry.path / name).is_file())
        request = plant.PlantFault(fault.name, entry.path / file)
        planted = self._make("plant", parts, f"{plant.__name__}:run", request, [])
        if not convert(planted.metadata, plant.Planted).planted:
            return entry
        self._say(f"PLANTED {fault.name} into {component}")
        return planted
