"""torch.compile with Inductor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_sdperf.contracts import EngineOption, LoadRequest, Runner
from pytest_sdperf.engines import _torch

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class TorchCompileEngine(_torch.ModuleEngine):
    """The torch module through `torch.compile`; compilation happens in the first run and is part of its seconds."""

    name = "torch-compile"
    compiles = True
    options = {
        "mode": EngineOption("default", "Mode of torch.compile.", choices=MODES),
        "fullgraph": EngineOption("on", "Refuse graph breaks.", choices=("on", "off")),
        "tf32": _torch.TF32,
    }

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Load the module and wrap it; the first call compiles."""
        import torch

        _torch.set_tf32(allowed=request.options["tf32"] == "on")
        compiled = torch.compile(
            _torch.load_module(request),
            mode=request.options["mode"],
            fullgraph=request.options["fullgraph"] == "on",
        )
        yield _torch.TorchRunner(compiled, request, clone_outputs=True)
