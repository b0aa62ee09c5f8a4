"""Registers the built-ins and a model as wide as it was released, with one layer of a kind, for tests of builds."""

from __future__ import annotations

from pytest_sdperf import builtins
from pytest_sdperf.core.catalog import Catalog


def pytest_sdperf_register(catalog: Catalog) -> None:
    builtins.pytest_sdperf_register(catalog)
    one = {"layers_per_block": 1}
    shallow = {"text_encoder": {"num_hidden_layers": 1}, "unet": one, "vae": one}
    catalog.add_model(catalog.models.get("sd15").variant("wide", config=shallow))
