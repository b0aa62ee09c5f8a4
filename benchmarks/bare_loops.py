"""Do the suites measure what a bare loop over the same build measures? Prints the ratio, and fails if it is off.

    pytest benchmarks/bare_loops.py --gpu=auto --component=unet --batch-size=1,8 --engine=ort-cuda:cuda_graph=on
    pytest benchmarks/bare_loops.py --gpu=auto --component=unet --batch-size=8 --engine=torch --optimization=fp16
    pytest benchmarks/bare_loops.py --component=unet                  # narrow twins on a CPU

The loops (`bare/`) know nothing of this project: they are what a user of onnxruntime or diffusers would type. One runs
before and one after our measurement, each in a process of its own, on the same file and the same inputs. Use enough
work per call: on a GPU, torch at batch size 1 waits for the host, and two such loops do not agree with each other.
Where the two differ by more than 2 % nothing can be compared with them, and the test is skipped; otherwise ours may be
5 % off.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_sdperf.core.labels import in_words
from pytest_sdperf.core.machine.device_choice import worker_environment
from pytest_sdperf.core.units import above_or_below, share
from pytest_sdperf.engines.ort_cuda import provider_options

HERE = Path(__file__).parent / "bare"
PROVIDERS = {"ort-cpu": "CPUExecutionProvider", "ort-cuda": "CUDAExecutionProvider"}
# Options of an engine that its bare loop passes on.
PASSED = {
    "ort-cuda": {"cuda_graph", "sdpa", "conv_search", "conv_bias", "conv_workspace", "arena", "tf32"},
    "ort-cpu": set(),
    "torch": set(),
}

# The two loops may differ by so much, and ours from their mean, as shares; on a CPU there is always something else.
AGREE, OFF, OFF_ON_CPU = 0.02, 0.02, 0.05


def why_not(runner):
    """Say why no bare loop does what a case does; empty if one does."""
    component, engine = runner.case.component, runner.engine
    if component != "unet" or engine.name not in PASSED:
        return f"no bare loop runs the {component} on {engine.name}"
    given = engine.all_options(dict(runner.request.options))
    other = [
        f"{name}={value}"
        for name, value in given.items()
        if value != engine.options[name].default and name not in PASSED[engine.name]
    ]
    return f"the bare loop has no {', '.join(other)}; leave it out of --engine" if other else ""


def command_of(runner, folder):
    """Return the command of the bare loop, with the files that it reads."""
    build, inputs, engine = runner.build("unet"), folder / "inputs.npz", runner.engine
    np.savez(inputs, **runner.inputs())
    python, on_cpu = runner.request.python or sys.executable, runner.context.device.kind == "cpu"
    if engine.name == "torch":
        config = folder / "config.json"
        config.write_text(json.dumps(runner.model.config("unet")), encoding="utf-8")
        place = "cpu" if on_cpu else "cuda"
        command = [HERE / "torch_loop.py", config, build.path, inputs, build.dtype, place]
    else:
        given = engine.all_options(dict(runner.request.options))
        options = provider_options(given, 0, dtype=build.dtype) if engine.name == "ort-cuda" else {}
        command = [HERE / "onnxruntime_loop.py", build.path, inputs, PROVIDERS[engine.name], json.dumps(options)]
    return [str(word) for word in (python, *command)]


@pytest.fixture
def bare_loop_ms(sdperf_runner, tmp_path):
    """A function that runs the bare loop in a fresh process and returns the median of its calls in milliseconds.

    It runs where and as the case does: on its device, alone, in its interpreter and environment.
    """
    runner = sdperf_runner
    reason = why_not(runner)
    if reason:
        pytest.skip(reason)
    command, bench = command_of(runner, tmp_path), runner.context
    environment = {**os.environ, **runner.request.env, **worker_environment(bench.device)}

    def loop() -> float:
        with bench.turns.alone(f"a bare loop of {in_words(runner.case)}"):
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        return statistics.median(json.loads(done.stdout.splitlines()[-1]))

    return loop


def judge_by_loops(ours_ms, before_ms, after_ms, *, allowed):
    """Fail where ours is off, and skip where the two loops do not agree with each other."""
    both = f"{before_ms:.3f} and {after_ms:.3f} ms"
    apart, ratio = (
        abs(before_ms - after_ms) / min(before_ms, after_ms),
        ours_ms / statistics.mean((before_ms, after_ms)),
    )
    if apart > AGREE:
        pytest.skip(
            f"no comparison: the bare loops before and after took {both}, {share(apart)} apart; ours {ours_ms:.3f} ms"
        )
    if abs(ratio - 1) > allowed:
        pytest.fail(
            f"ours {ours_ms:.3f} ms is {above_or_below(ratio)} the bare loops before and after, which took {both}; "
            f"{share(allowed)} is allowed",
            pytrace=False,
        )


def test_the_suites_measure_what_a_bare_loop_measures(sdperf_runner, sdperf_bench, bare_loop_ms, capsys):
    before = bare_loop_ms()
    ours = sdperf_bench(sdperf_runner).latency_s * 1e3
    after = bare_loop_ms()
    ratio = ours / statistics.mean((before, after))
    case = sdperf_runner.case
    with capsys.disabled():
        print(f"\n{case.engine} {case.optimization} batch {case.batch_size}: ours {ours:.3f} ms,", end=" ")
        print(f"bare loop {before:.3f} and {after:.3f} ms, ratio {ratio:.3f}")
    judge_by_loops(ours, before, after, allowed=OFF_ON_CPU if sdperf_runner.context.device.kind == "cpu" else OFF)
