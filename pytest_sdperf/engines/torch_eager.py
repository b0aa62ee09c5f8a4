"""torch without compilation: the reference, and the engine that everybody has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_sdperf.contracts import LoadRequest, Runner
from pytest_sdperf.engines import _torch


class TorchEngine(_torch.ModuleEngine):
    """The torch module as diffusers builds it."""

    name = "torch"
    options = {"tf32": _torch.TF32}

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Load the module onto the device."""
        _torch.set_tf32(allowed=request.options["tf32"] == "on")
        yield _torch.TorchRunner(_torch.load_module(request), request)
