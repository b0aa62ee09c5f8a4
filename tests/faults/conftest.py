from __future__ import annotations

import pytest

from pytest_sdperf.faults.fault import Fault


@pytest.fixture(scope="session")
def recorded() -> set[str]:
    """The commands that have recorded a healthy baseline."""
    return set()


@pytest.fixture
def prepare(type_in, recorded):
    def once(fault: Fault) -> None:
        if fault.preparation and fault.preparation not in recorded:
            assert type_in(fault.preparation).ret == 0
            recorded.add(fault.preparation)

    return once
