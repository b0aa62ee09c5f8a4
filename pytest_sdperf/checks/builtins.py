"""Our own checks, registered through the public hook like anyone's; workers know nothing of them.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

from pytest_sdperf.checks.agreement.check import Agrees
from pytest_sdperf.checks.equivalence.check import Equivalent
from pytest_sdperf.checks.fusions.check import Fused
from pytest_sdperf.checks.precision.check import HALVES, Drifts, TorchDrifts
from pytest_sdperf.checks.replay.check import Batch, Repeats, Resolutions
from pytest_sdperf.checks.semantics.check import Pictures
from pytest_sdperf.core.catalog import Catalog


def pytest_sdperf_register(catalog: Catalog) -> None:
    """Register the checks of this project."""
    drifts = (Drifts(), *map(TorchDrifts, HALVES))
    for check in (Fused(), Equivalent(), Agrees(), *drifts, Pictures(), Repeats(), Batch(), Resolutions()):
        catalog.add_check(check)
