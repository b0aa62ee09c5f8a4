"""Registers the built-in models alone, for workers that tests start."""

from __future__ import annotations

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.models import sd15


def pytest_sdperf_register(catalog: Catalog) -> None:
    for model in sd15.MODELS:
        catalog.add_model(model)
