"""A model of a few thousand parameters with the wiring of a transformer stack, for tests of building."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.contracts import Arrays, Model
from pytest_sdperf.core.errors import WeightsError
from pytest_sdperf.core.values import TensorSpec, Workload
from pytest_sdperf.fusing.optimizations import LADDER

WIDTH = 32


class TinyModel(Model):
    name = "tiny"
    components = ("unet",)
    height = width = 128
    steps = 2
    thin = True

    def config(self, component: str) -> dict[str, Any]:
        return {"width": WIDTH}

    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        shape = (2 * workload.batch_size, workload.height // 8, WIDTH)
        return (
            TensorSpec("sample", "float", shape, {0: "batch", 1: "tokens"}),
            TensorSpec("timestep", "float32", ()),
        )

    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        shape = self.inputs(component, workload)[0].shape
        return (TensorSpec("out_sample", "float", shape, {0: "batch", 1: "tokens"}),)

    def example(self, component: str, workload: Workload, *, seed: int = 0) -> Arrays:
        import numpy as np

        shape = self.inputs(component, workload)[0].shape
        drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        return {"sample": drawn, "timestep": np.array(980.6, dtype=np.float32)}

    def module(self, component: str, *, weights: Path | None, dtype: str = "float32", device: str = "cpu") -> Any:
        import torch

        with torch.device("meta"):
            module = self.make()
        if weights is not None:
            from safetensors.torch import load_file

            module.load_state_dict(load_file(weights), assign=True)
            module = module.to(device=device, dtype=getattr(torch, dtype))
        return module

    def make(self) -> Any:
        """Return a new module, on whatever device torch makes its tensors."""
        return make_module()

    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        import torch
        from safetensors.torch import save_file

        generator = torch.Generator().manual_seed(seed)
        shapes = {name: tensor.shape for name, tensor in self.module(component, weights=None).state_dict().items()}
        drawn = {
            name: torch.randn(shape, generator=generator) * 0.2 + ("norm" in name and name.endswith("weight"))
            for name, shape in shapes.items()
        }
        save_file(drawn, path)

    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        source = folder / component / "diffusion_pytorch_model.safetensors"
        if not source.is_file():
            raise WeightsError(f"{folder} holds no {component}")
        path.write_bytes(source.read_bytes())

    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        return ()


def make_module() -> Any:
    import torch

    class BasicTransformerBlock(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for index in (1, 2, 3):
                self.add_module(f"norm{index}", torch.nn.LayerNorm(WIDTH))
                self.add_module(f"linear{index}", torch.nn.Linear(WIDTH, WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for index in (1, 2, 3):
                x = x + self.get_submodule(f"linear{index}")(self.get_submodule(f"norm{index}")(x))
            return x

    class Transformer2DModel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj_in = torch.nn.Linear(WIDTH, WIDTH)
            self.transformer_blocks = torch.nn.ModuleList([BasicTransformerBlock(), BasicTransformerBlock()])
            self.proj_out = torch.nn.Linear(WIDTH, WIDTH)

        def forward(self, sample: torch.Tensor, timestep: torch.Tensor) -> tuple[torch.Tensor]:
            angles = timestep.to(torch.float32) * torch.exp(-torch.arange(WIDTH // 2, device=timestep.device) / 4.0)
            x = self.proj_in(sample) * torch.cat([torch.sin(angles), torch.cos(angles)]).to(sample.dtype)
            for block in self.transformer_blocks:
                x = block(x)
            return (self.proj_out(x),)

    return Transformer2DModel()


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_model(TinyModel())
    for optimization in LADDER:
        catalog.add_optimization(optimization)


def make_catalog() -> Catalog:
    catalog = Catalog()
    with catalog.owned_by(Registrar("tiny_model", Path(__file__))):
        pytest_sdperf_register(catalog)
    return catalog
