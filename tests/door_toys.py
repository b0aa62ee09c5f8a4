"""A third party's plug-ins: engines, models, optimizations and a device without any vendor library behind them.

Named as the built-ins are, so that the defaults of the command line apply. Loaded with `-p door_toys`.
PYTEST_DONT_REWRITE: tests import it before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Engine, EngineOption, LoadRequest, Model, Optimization, Requirement, Runner
from pytest_sdperf.core.device import Device, DeviceKind, DeviceProbe, Health
from pytest_sdperf.core.values import TensorSpec, Workload


class ToyModel(Model):
    def __init__(
        self, name: str, *, components: tuple[str, ...] = ("text_encoder", "unet"), thin: bool = False
    ) -> None:
        self.name = name
        self.components = components
        self.thin = thin
        self.height = self.width = 128 if thin else 512
        self.steps = 4 if thin else 50

    def config(self, component: str) -> dict[str, Any]:
        return {}

    def parameters(self, component: str) -> int | None:
        return {"text_encoder": 100_000, "unet": 1_000_000}.get(component)  # small: on any disk there is room

    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        return ()

    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        return ()

    def example(self, component: str, workload: Workload, *, seed: int = 0) -> dict[str, Any]:
        return {}

    def module(self, component: str, *, weights: Path | None, dtype: str = "float32", device: str = "cpu") -> Any:
        raise NotImplementedError

    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        raise NotImplementedError

    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        raise NotImplementedError

    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        return ()


class ToyEngine(Engine):
    def __init__(
        self,
        name: str,
        *,
        consumes: str = "onnx",
        kinds: tuple[DeviceKind, ...] = ("cpu",),
        options: Mapping[str, EngineOption] | None = None,
        needs: str = "json",
        repeats_on: tuple[DeviceKind, ...] = (),
    ) -> None:
        self.name = name
        self.consumes = "onnx" if consumes == "onnx" else "module"
        self.device_kinds = kinds
        self.options = options or {}
        self.requirements = (Requirement(needs, f"pip install {needs}"),)
        self.repeats_on = repeats_on

    def supports(self, optimization: str) -> str | None:
        if self.consumes == "module" and optimization not in ("fp32", "fp16"):
            return f"{self.name} runs the torch module"
        return None

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        return ("fp32",) if self.consumes == "module" else ("fp32", "fp16")

    def versions(self) -> dict[str, str]:
        return {}

    def load(self, request: LoadRequest) -> AbstractContextManager[Runner]:
        raise NotImplementedError


class ToyOptimization(Optimization):
    def __init__(self, name: str, position: int) -> None:
        self.name = name
        self.position = position

    def expected(self, module: Any) -> Mapping[str, int]:
        return {}


class ToyProbe(DeviceProbe):
    def __init__(self, *devices: Device) -> None:
        self.name = f"toy-{devices[0].kind}"
        self.kind = devices[0].kind
        self._devices = devices

    def find(self) -> tuple[Device, ...]:
        return self._devices

    def health(self, device: Device) -> Health:
        return Health()


CUDA_GRAPH = EngineOption("off", "Replay one graph.", choices=("off", "on"))
SDPA = EngineOption("auto", "Attention kernel.", choices=("auto", "flash", "cudnn"))
THREADS = EngineOption("auto", "Threads.", pattern=r"auto|[1-9]\d*")


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_engine(ToyEngine("torch", consumes="module", kinds=("cpu", "cuda"), repeats_on=("cpu",)))
    catalog.add_engine(ToyEngine("ort-cpu", options={"threads": THREADS}, repeats_on=("cpu",)))
    catalog.add_engine(ToyEngine("ort-cuda", kinds=("cuda",), options={"cuda_graph": CUDA_GRAPH, "sdpa": SDPA}))
    catalog.add_engine(ToyEngine("absent", needs="a_module_that_nobody_has"))
    catalog.add_model(ToyModel("sd15-thin", thin=True))
    catalog.add_model(ToyModel("sd15"))
    catalog.add_model(ToyModel("sdxl", components=("text_encoder", "text_encoder_2", "unet")))
    for position, name in enumerate(("fp32", "fp16", "fmha", "group-norm")):
        catalog.add_optimization(ToyOptimization(name, position))
    catalog.add_device_probe(ToyProbe(Device("cpu", "Toy CPU", "toy-cpu")))


def toy_catalog() -> Catalog:
    catalog = Catalog()
    pytest_sdperf_register(catalog)
    return catalog
