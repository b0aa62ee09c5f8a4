"""A third party's model: a stack of wide layers, quick to export and heavy to run.

Tests copy this file into a user's project, as its root `conftest.py` or beside it. It imports pytest_sdperf, torch and
numpy and nothing else, because workers import it too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Arrays, Model
from pytest_sdperf.core.errors import WeightsError
from pytest_sdperf.core.values import TensorSpec, Workload


class DenseModel(Model):
    components = ("unet",)
    height = width = 64
    steps = 1
    scheduler = "ddim"
    thin = True

    def __init__(self, name: str, *, features: int, layers: int) -> None:
        self.name = name
        self.features = features
        self.layers = layers

    def config(self, component: str) -> dict[str, Any]:
        return {"features": self.features, "layers": self.layers}

    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        tokens = workload.height * workload.width // 64
        return (TensorSpec("sample", "float", (2 * workload.batch_size, tokens, self.features), {0: "batch"}),)

    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        (sample,) = self.inputs(component, workload)
        return (TensorSpec("out_sample", "float", sample.shape, {0: "batch"}),)

    def example(self, component: str, workload: Workload, *, seed: int = 0) -> Arrays:
        import numpy as np

        shape = self.inputs(component, workload)[0].shape
        return {"sample": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}

    def module(self, component: str, *, weights: Path | None, dtype: str = "float32", device: str = "cpu") -> Any:
        import torch

        with torch.device("meta"):
            parts = [torch.nn.Linear(self.features, self.features) for _ in range(self.layers)]
        module = _as_tuple(torch.nn.Sequential(*(layer for part in parts for layer in (part, torch.nn.Tanh()))))
        if weights is not None:
            from safetensors.torch import load_file

            module.load_state_dict(load_file(weights), assign=True)
            module = module.to(device=device, dtype=getattr(torch, dtype))
        return module

    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        import numpy as np
        from safetensors.numpy import save_file

        random = np.random.default_rng(seed)
        bound = (3 / self.features) ** 0.5
        drawn = {}
        for layer in range(self.layers):
            name, shape = f"stack.{2 * layer}", (self.features, self.features)
            drawn[f"{name}.weight"] = random.uniform(-bound, bound, shape).astype(np.float32)
            drawn[f"{name}.bias"] = random.uniform(-0.1, 0.1, self.features).astype(np.float32)
        save_file(drawn, path)

    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        raise WeightsError(f"{self.name} has no released weights; type --sdperf-weights=random")

    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        return ()


def _as_tuple(stack: Any) -> Any:
    import torch

    class Dense(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stack = stack

        def forward(self, sample: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.stack(sample),)

    return Dense()


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_model(DenseModel("dense", features=32, layers=2))
    # 2 threads need half the time of 1, and a call takes tens of milliseconds: far above what starting threads costs.
    catalog.add_model(DenseModel("dense-heavy", features=1024, layers=8))
