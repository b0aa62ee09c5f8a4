"""Engines of torch: one with a wrong block, one that says it compiles, and one that does not tell what is inside."""

from __future__ import annotations

import contextlib

from pytest_sdperf.engines.torch_eager import TorchEngine


class Wrong(TorchEngine):
    """One layer of the text encoder gives 0.15 % too much."""

    name, aliases = "wrong", {}

    @contextlib.contextmanager
    def load(self, request):
        with super().load(request) as runner:
            layer = runner._module.text_encoder.get_submodule("encoder.layers.0")
            layer.register_forward_hook(lambda _, __, made: made * 1.0015)
            yield runner


class Compiling(TorchEngine):
    name, aliases, compiles = "compiling", {}, True


class Silent(TorchEngine):
    name, aliases = "silent", {}

    @contextlib.contextmanager
    def load(self, request):
        with super().load(request) as runner:
            runner.inside = lambda *, blocks: contextlib.nullcontext({})
            yield runner


def pytest_sdperf_register(catalog):
    for engine in (Wrong, Compiling, Silent):
        catalog.add_engine(engine())
