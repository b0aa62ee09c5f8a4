"""Do the suites measure what a bare loop over the same build measures? Prints the ratio, in one run.

    pytest benchmarks/bare_loops.py --gpu=auto --component=unet --batch-size=1,8 --engine=ort-cuda:cuda_graph=on
    pytest benchmarks/bare_loops.py --gpu=auto --component=unet --batch-size=8 --engine=torch --optimization=fp16
    pytest benchmarks/bare_loops.py --component=unet                  # narrow twins on a CPU

The loops (`bare/`) know nothing of this project: they are what a user of onnxruntime or diffusers would type. One runs
before and one after our measurement, each in a process of its own, on the same file and the same inputs. Use enough
work per call: on a GPU, torch at batch size 1 waits for the host, and two such loops do not agree with each other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent / "bare"
PROVIDERS = {"ort-cpu": "CPUExecutionProvider", "ort-cuda": "CUDAExecutionProvider"}


@pytest.fixture
def bare_loop_ms(runner, tmp_path):
    """A function that runs the bare loop in a fresh process and returns the median of its calls in milliseconds."""
    component, engine = runner.case.component, runner.engine.name
    if component != "unet" or engine not in (*PROVIDERS, "torch"):
        pytest.skip(f"no bare loop runs the {component} on {engine}")
    build, inputs = runner.build(component), tmp_path / "inputs.npz"
    np.savez(inputs, **runner.inputs())
    if engine == "torch":
        config = tmp_path / "config.json"
        config.write_text(json.dumps(runner.model.config(component)), encoding="utf-8")
        where = "cpu" if runner.workbench.device.kind == "cpu" else "cuda"
        command = [HERE / "torch_loop.py", config, build.path, inputs, build.floating, where]
    else:
        graph = dict(runner.request.options).get("cuda_graph") == "on"
        options = json.dumps({"enable_cuda_graph": "1"} if graph else {})
        command = [HERE / "onnxruntime_loop.py", build.path, inputs, PROVIDERS[engine], options]

    def loop() -> float:
        done = subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
        return statistics.median(json.loads(done.stdout.splitlines()[-1]))

    return loop


def test_the_suites_measure_what_a_bare_loop_measures(runner, bench, bare_loop_ms, capsys):
    before = bare_loop_ms()
    ours = bench(runner).latency_s * 1e3
    after = bare_loop_ms()
    ratio = ours / statistics.mean((before, after))
    case = runner.case
    with capsys.disabled():
        print(f"\n{case.engine} {case.optimization} batch {case.batch_size}: ours {ours:.3f} ms,", end=" ")
        print(f"bare loop {before:.3f} and {after:.3f} ms, ratio {ratio:.3f}")
