"""Every fault, by name."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.faults import environment, harness, numerics, weights
from pytest_sdperf.faults.fault import Fault
from pytest_sdperf.faults.graph import activations, attention, convolutions, norms
from pytest_sdperf.faults.runtime import answers, kernels, work

AREAS = ("graph", "weights", "numerics", "runtime", "environment", "harness")
_ROOMS = (attention, norms, convolutions, activations, weights, numerics, answers, kernels, work, environment, harness)
FAULTS: Mapping[str, Fault] = {fault.name: fault for room in _ROOMS for fault in room.FAULTS}


def get(name: str) -> Fault:
    """Return the fault of this name.

    Raises:
        UnknownNameError: There is none; the text has one that is like it, and the command that lists all of them.
    """
    if name in FAULTS:
        return FAULTS[name]
    raise UnknownNameError("fault", name, FAULTS, listed_by="sdperf faults")
