"""The smallest component that an engine can load: `out_sample = sample @ weight + timestep`; for `testing.py` only."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_sdperf.core.contracts import Arrays, Model
from pytest_sdperf.core.values import Build, TensorSpec, Workload

if TYPE_CHECKING:
    import numpy as np
    import torch

WIDTH = 8


@dataclasses.dataclass
class ProbeModel(Model):
    """A model whose `unet` multiplies by one matrix."""

    name: str = "probe"
    components: tuple[str, ...] = ("unet",)

    def config(self, component: str) -> dict[str, Any]:
        """Return the width of the matrix."""
        return {"width": WIDTH}

    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `sample` (2N, WIDTH) and `timestep` (1,)."""
        batch = 2 * workload.batch_size
        return (TensorSpec("sample", "float", (batch, WIDTH), {0: "batch"}), TensorSpec("timestep", "int64", (1,)))

    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `out_sample` (2N, WIDTH)."""
        return (TensorSpec("out_sample", "float", (2 * workload.batch_size, WIDTH), {0: "batch"}),)

    def example(self, component: str, workload: Workload, *, seed: int = 0) -> Arrays:
        """Draw inputs."""
        import numpy as np

        random = np.random.default_rng(seed)
        sample = random.standard_normal((2 * workload.batch_size, WIDTH)).astype(np.float32)
        return {"sample": sample, "timestep": np.array([7 + seed], dtype=np.int64)}

    def weight(self) -> np.ndarray[Any, Any]:
        """Return the matrix."""
        import numpy as np

        return np.random.default_rng(42).standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH

    def expected(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Return what the component computes, in float64."""
        return {"out_sample": inputs["sample"].astype("float64") @ self.weight() + inputs["timestep"]}

    def module(
        self, component: str, *, weights: Path | None, dtype: str = "float32", device: str = "cpu"
    ) -> torch.nn.Module:
        """Return the component as a torch module."""
        import torch

        class Probe(torch.nn.Module):
            def __init__(self, weight: torch.Tensor) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(weight)

            def forward(self, sample: torch.Tensor, timestep: torch.Tensor) -> tuple[torch.Tensor]:
                return (sample @ self.weight + timestep.to(sample.dtype),)

        return Probe(torch.from_numpy(self.weight())).to(device=device, dtype=getattr(torch, dtype))

    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        """Write the matrix."""
        from safetensors.numpy import save_file

        save_file({"weight": self.weight()}, path)

    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        """Write the matrix: there is no folder to import from."""
        self.draw_weights(component, path)

    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        """Write nothing: there is no text encoder."""
        return ()

    def build(self, consumes: Literal["onnx", "module"], folder: Path) -> Build:
        """Write the component as an engine consumes it."""
        if consumes == "module":
            path = folder / "weights.safetensors"
            self.draw_weights("unet", path)
            return Build("probe", "module", path, "float32")
        path = folder / "model.onnx"
        self._write_onnx(path)
        return Build("probe", "onnx", path, "float32")

    def _write_onnx(self, path: Path) -> None:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        rows = 2  # of a workload of batch size 1
        nodes = [
            helper.make_node("MatMul", ["sample", "weight"], ["product"]),
            helper.make_node("Cast", ["timestep"], ["time"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["product", "time"], ["out_sample"]),
        ]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes,
            "probe",
            [value("sample", TensorProto.FLOAT, [rows, WIDTH]), value("timestep", TensorProto.INT64, [1])],
            [value("out_sample", TensorProto.FLOAT, [rows, WIDTH])],
            [numpy_helper.from_array(self.weight(), "weight")],
        )
        # An IR version that every supported onnxruntime reads.
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
