"""The hook that adds engines, models, optimizations, devices, metrics, checks, alterations and baselines."""

from __future__ import annotations

import pytest

from pytest_sdperf.core.catalog import Catalog


@pytest.hookspec
def pytest_sdperf_register(catalog: Catalog) -> None:
    """Add things to the catalog.

    Called once per run, and again in every worker process whose case needs something of the registering module; a
    worker may run under an interpreter without pytest, so that module should import the rest inside functions.
    Implement it in a root `conftest.py`, in a module loaded with `-p`, or in an installed plugin::

        def pytest_sdperf_register(catalog):
            catalog.add_engine(AcmeEngine())
            catalog.add_baselines(Path(__file__).parent / "acme_baselines")
    """
