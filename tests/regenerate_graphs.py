"""Export the graphs of the zoo again, or add those of another version of torch; without their weights.

    python tests/regenerate_graphs.py                    # every graph, into graphs/torch-<version of this torch>/
    python tests/regenerate_graphs.py sd15-thin-unet-dynamo-18-static sd15-thin-text_encoder-dynamo-18-static
    python tests/regenerate_graphs.py --list             # the names, and which of them have a file

One graph after the other, 10 to 100 seconds each on one core. To extend the zoo, add an entry below. For another
version of torch, run this with an interpreter that has it; a few names are enough to show what that version changes.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from stripped_graphs import save_stripped, strip

from pytest_sdperf import builtins
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Arrays, Model
from pytest_sdperf.core.values import TensorSpec, Workload
from pytest_sdperf.tasks import TaskContext, export
from pytest_sdperf.tasks import weights as weights_task
from pytest_sdperf.tasks.sampling.phases import Silent

if TYPE_CHECKING:
    import torch

GRAPHS = Path(__file__).parent / "data/graphs"
SUFFIX = ".onnx.xz"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One graph of the zoo."""

    model: str
    component: str
    exporter: str
    opset: int
    shapes: str
    dtype: str = "float32"

    @property
    def name(self) -> str:
        parts = [self.model, self.component, self.exporter, str(self.opset), self.shapes]
        return "-".join(parts if self.dtype == "float32" else [*parts, self.dtype])

    @property
    def workload(self) -> Workload:
        # The sizes of a thin model's default request: latents of 16 x 16, a guided UNet call of two samples.
        return Workload(batch_size=1, height=128, width=128)


ENTRIES = (
    Entry("sd15-thin", "unet", "dynamo", 18, "static"),
    Entry("sd15-thin", "unet", "dynamo", 18, "dynamic"),
    Entry("sd15-thin", "unet", "dynamo", 23, "static"),
    Entry("sd15-thin", "unet", "dynamo", 23, "dynamic"),
    Entry("sd15-thin", "unet", "dynamo", 20, "static"),
    Entry("sd15-thin", "unet", "torchscript", 17, "static"),
    Entry("sd15-thin", "unet", "torchscript", 17, "dynamic"),
    Entry("sd15-thin", "text_encoder", "dynamo", 18, "static"),
    Entry("sd15-thin", "text_encoder", "dynamo", 18, "dynamic"),
    Entry("sd15-thin", "text_encoder", "dynamo", 23, "static"),
    Entry("sd15-thin", "text_encoder", "torchscript", 17, "static"),
    Entry("sd15-thin", "vae_decoder", "dynamo", 18, "static"),
    Entry("sd15-thin", "vae_decoder", "dynamo", 18, "dynamic"),
    Entry("sd15-thin", "vae_decoder", "dynamo", 23, "static"),
    Entry("sd15-thin", "vae_decoder", "torchscript", 17, "static"),
    Entry("sd15-thin", "vae_encoder", "dynamo", 18, "static"),
    Entry("sdxl-thin", "unet", "dynamo", 18, "static"),
    Entry("sdxl-thin", "unet", "dynamo", 18, "dynamic"),
    Entry("sdxl-thin", "unet", "dynamo", 23, "static"),
    Entry("sdxl-thin", "unet", "torchscript", 17, "static"),
    Entry("sdxl-thin", "text_encoder_2", "dynamo", 18, "static"),
    Entry("sd21-thin", "unet", "dynamo", 18, "static"),
    Entry("sd21-thin", "unet", "dynamo", 18, "dynamic"),
    Entry("sd21-thin", "text_encoder", "dynamo", 18, "static"),
    Entry("sdxl-refiner-thin", "unet", "dynamo", 18, "static"),
    Entry("sd15-thin", "unet", "dynamo", 18, "static", dtype="float16"),
    Entry("sd15-thin", "text_encoder", "dynamo", 18, "static", dtype="float16"),
)


class Half(Model):
    """A model whose modules hold float16, as people export who call `.half()` first; the timestep stays float32."""

    def __init__(self, model: Model) -> None:
        self.model, self.name, self.components = model, model.name, model.components

    def config(self, component: str) -> dict[str, Any]:
        return self.model.config(component)

    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        return self.model.inputs(component, workload)

    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        return self.model.outputs(component, workload)

    def example(self, component: str, workload: Workload, *, seed: int = 0) -> Arrays:
        arrays = self.model.example(component, workload, seed=seed)
        return {
            name: array.astype(np.float16) if array.dtype == np.float32 and name != "timestep" else array
            for name, array in arrays.items()
        }

    def module(
        self, component: str, *, weights: Path | None, dtype: str = "float16", device: str = "cpu"
    ) -> torch.nn.Module:
        return self.model.module(component, weights=weights, dtype="float16", device=device)

    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        self.model.draw_weights(component, path, seed=seed)

    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        self.model.import_weights(component, folder, path)

    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        return self.model.write_tokenizers(folder, weights=weights)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="graphs to export (default: all)")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--into", type=Path, metavar="FOLDER", default=GRAPHS, help="default: %(default)s")
    parser.add_argument("--exports", type=Path, metavar="FOLDER", help="keep full exports here, one folder per torch")
    options = parser.parse_args(arguments)
    known = {entry.name: entry for entry in ENTRIES}
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no such graph: {', '.join(unknown)}. Names are printed by --list")
    target = options.into / f"torch-{'.'.join(version('torch').split('.')[:2])}"
    if options.list:
        for name in known:
            print(f"{'file' if (target / (name + SUFFIX)).exists() else '-':5} {name}")
        return 0
    wanted = [known[name] for name in options.names or known]
    failed = [entry.name for entry in wanted if not _made(entry, target, options.exports)]
    print(f"failed: {', '.join(failed)}" if failed else "done")
    return 1 if failed else 0


def _made(entry: Entry, target: Path, exports: Path | None) -> bool:
    """Write one graph; a failure is printed and the next graph has its turn."""
    start_s = time.monotonic()
    path = target / (entry.name + SUFFIX)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            full = _export(entry, exports or Path(scratch))
            model = ir.load(full)
            strip(model)
            target.mkdir(parents=True, exist_ok=True)
            save_stripped(model, path)
        except Exception as error:  # noqa: BLE001  # whatever an exporter raises
            print(f"{entry.name}: {type(error).__name__}: {' '.join(str(error).split())[:1000]}", flush=True)
            return False
        finally:
            gc.collect()
    print(f"{entry.name}: {path.stat().st_size / 1e3:.0f} kB, {time.monotonic() - start_s:.0f} s", flush=True)
    return True


def _export(entry: Entry, folder: Path) -> Path:
    """Return the full export of an entry in `folder`, made if it is not there."""
    full = folder / entry.name / export.FILE
    if full.exists():
        return full
    weights_dir, out_dir = folder / f"{entry.model}-{entry.component}", full.parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not (weights_dir / weights_task.FILE).exists():
            weights_dir.mkdir(parents=True, exist_ok=True)
            request = weights_task.WriteWeights(entry.model, entry.component)
            weights_task.run(request, _context(entry, weights_dir))
        with tempfile.TemporaryDirectory(dir=folder) as unfinished:
            asked = export.ExportModule(
                entry.model, entry.component, exporter=entry.exporter, opset=entry.opset, shapes=entry.shapes,
                workload=entry.workload, weights=weights_dir / weights_task.FILE,
            )  # fmt: skip
            export.run(asked, _context(entry, Path(unfinished)))
            out_dir.mkdir(parents=True, exist_ok=True)
            for file in Path(unfinished).iterdir():
                file.replace(out_dir / file.name)
    return full


def _context(entry: Entry, out_dir: Path) -> TaskContext:
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    if entry.dtype == "float16":
        half = Catalog()
        half.add_model(Half(catalog.models.get(entry.model)))
        catalog = half
    return TaskContext(out_dir, catalog, Silent(), lambda text: None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
