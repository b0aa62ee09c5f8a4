"""The names of all fixtures of the plugin."""

from __future__ import annotations

from pytest_sdperf.cases.purposes import PURPOSES
from pytest_sdperf.checks.builtins import pytest_sdperf_register
from pytest_sdperf.core.catalog import Catalog


def our_fixtures() -> list[str]:
    """Return them, those of our own checks included."""
    catalog = Catalog()
    pytest_sdperf_register(catalog)
    return sorted(
        [
            *PURPOSES,
            *{f"sdperf_{one.beside or one.fixture or one.name}" for one in catalog.checks.items().values()},
        ]
    )
