"""How long fusing a UNet takes, and how much memory: the fuser `native` against onnxruntime's optimizer, in one run.

    python benchmarks/fusing.py                      # sd15 at full size; exports first (about a minute, 8 GB of disk)
    python benchmarks/fusing.py sd15-thin sdxl-thin  # narrow twins
    python benchmarks/fusing.py --fusers=native sdxl # without the slow side

Fusing is timed alone: the export, loading the graph and writing the result are not in it (onnxruntime's optimizer
reads the weights when it loads, so its loading is given apart). Each side runs in a process of its own, and `memory`
is that process's peak. Weights are random: fusing does not look at them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from pytest_sdperf import builtins
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks import TaskContext, export, fuse_ort, weights
from pytest_sdperf.tasks.sampling.phases import Silent

OPSET = 18


def main() -> None:
    """Export each model once, fuse it on every side, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["sd15"])
    parser.add_argument("--fusers", default="native,ort")
    parser.add_argument("--folder", type=Path, help="keep exports here, and use those that are there")
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        fuser, source = arguments.side
        print(json.dumps({"native": fuse_native, "ort": fuse_with_ort}[fuser](Path(source))))
        return
    names = ", ".join(f"{name} {version(name)}" for name in ("onnx_ir", "onnx", "onnxruntime", "torch"))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(f"{machine}, Python {platform.python_version()}; {names}")
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.models:
            compare(name, arguments.fusers.split(","), exported(name, arguments.folder or Path(scratch)))


def exported(name: str, folder: Path) -> Path:
    """Return the exported UNet of a model: static shapes, one image, with random weights."""
    out = folder / name
    path = out / export.FILE
    if path.is_file():
        return path
    out.mkdir(parents=True, exist_ok=True)
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    model = catalog.models.get(name)
    context = TaskContext(out, catalog, Silent(), lambda text: print(f"  {text}", file=sys.stderr))
    weights.run(weights.WriteWeights(name, "unet"), context)
    workload = Workload(batch_size=1, height=model.height, width=model.width, steps=0, scheduler="")
    export.run(export.ExportModule(name, "unet", "dynamo", OPSET, "static", workload, out / weights.FILE), context)
    (out / weights.FILE).unlink()
    return path


def compare(name: str, fusers: list[str], source: Path) -> None:
    """Fuse one export on every side and print seconds, memory and the ratio."""
    size = sum(file.stat().st_size for file in source.parent.iterdir())
    print(f"\n{name}: {size / 1e9:.2f} GB exported")
    seconds = {}
    for fuser in fusers:
        command = [sys.executable, __file__, "--side", fuser, str(source)]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        seconds[fuser] = answer["fuse_s"]
        print(
            f"  {fuser:7} fuse {answer['fuse_s']:8.2f} s (CPU {answer['cpu_s']:.2f} s), load {answer['load_s']:.2f} s, "
            f"save {answer['save_s']:.2f} s, memory {answer['peak_bytes'] / 1e9:.2f} GB = "
            f"{answer['peak_bytes'] / size:.2f} x the model; {answer['nodes_before']} -> {answer['nodes']} nodes, "
            f"{answer['fused']} fused"
        )
    if {"native", "ort"} <= seconds.keys():
        print(f"  ort takes {seconds['ort'] / seconds['native']:.0f} x as long as native")


def fuse_native(source: Path) -> dict[str, float]:
    """Fuse with every optimization of the ladder and save."""
    import onnx_ir as ir

    from pytest_sdperf.fusing.native import fuse
    from pytest_sdperf.fusing.optimizations import LADDER

    start = time.perf_counter()
    model = ir.load(source)
    before = len(model.graph)
    loaded, cpu = time.perf_counter(), time.process_time()
    fuse(
        model,
        [fusion for optimization in LADDER for fusion in optimization.fusions()],
        to_float16=True,
        float32=["timestep"],
    )
    done, cpu = time.perf_counter(), time.process_time() - cpu
    with tempfile.TemporaryDirectory(dir=source.parent.parent) as folder:
        ir.save(model, Path(folder) / "model.onnx", external_data="model.onnx.data")
        saved = time.perf_counter()
    fused = sum(node.domain == "com.microsoft" for node in model.graph)
    return _answer(start, loaded, done, saved, cpu=cpu, before=before, nodes=len(model.graph), fused=fused)


def fuse_with_ort(source: Path) -> dict[str, float]:
    """Fuse with every option that onnxruntime's optimizer has for the ladder, convert to float16 and save."""
    import onnx
    from onnxruntime.transformers.onnx_model_unet import UnetOnnxModel

    from pytest_sdperf.fusing.optimizations import LADDER

    start = time.perf_counter()
    model = onnx.load(source)
    before = len(model.graph.node)
    loaded, cpu = time.perf_counter(), time.process_time()
    options = fuse_ort.fusion_options("unet", [name for optimization in LADDER for name in optimization.ort_options])
    optimizer = UnetOnnxModel(model)
    optimizer.optimize(options)
    optimizer.convert_float_to_float16(keep_io_types=["timestep"])
    done, cpu = time.perf_counter(), time.process_time() - cpu
    with tempfile.TemporaryDirectory(dir=source.parent.parent) as folder:
        optimizer.save_model_to_file(str(Path(folder) / "model.onnx"), use_external_data_format=True)
        saved = time.perf_counter()
    nodes = list(optimizer.model.graph.node)
    fused = sum(node.domain == "com.microsoft" for node in nodes)
    return _answer(start, loaded, done, saved, cpu=cpu, before=before, nodes=len(nodes), fused=fused)


def _answer(
    start: float, loaded: float, done: float, saved: float, *, cpu: float, before: int, nodes: int, fused: int
) -> dict[str, float]:
    return {
        "load_s": loaded - start,
        "fuse_s": done - loaded,
        "cpu_s": cpu,
        "save_s": saved - done,
        # Linux counts kilobytes.
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "nodes_before": before,
        "nodes": nodes,
        "fused": fused,
    }


if __name__ == "__main__":
    main()
