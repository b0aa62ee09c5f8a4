"""Our own alterations, registered through the public hook like anyone's, where one of them was asked for.

Standard library only at import time: workers import this under foreign interpreters.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.faults import known
from pytest_sdperf.faults.planting import PlantedFault


def pytest_sdperf_register(catalog: Catalog) -> None:
    """Register every fault."""
    for fault in known.FAULTS.values():
        catalog.add_alteration(PlantedFault(fault))
