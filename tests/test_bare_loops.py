"""`benchmarks/bare_loops.py`: a bare loop runs where and as the case does that it is compared with."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sample_values import case

from pytest_sdperf.core.device import Device
from pytest_sdperf.core.settings import EngineRequest
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.engines.ort_cuda import OrtCudaEngine
from pytest_sdperf.engines.torch_eager import TorchEngine

CARD = Device("cuda", "NVIDIA T4", "t4", index=1, uuid="GPU-1")


@pytest.fixture(scope="module")
def program():
    path = Path(__file__).parent.parent / "benchmarks" / "bare_loops.py"
    spec = importlib.util.spec_from_file_location("bare_loops", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Turns:
    """Tells whether it is somebody's turn."""

    taken = ""

    @contextlib.contextmanager
    def alone(self, what):
        self.taken = what
        yield
        self.taken = ""


def runner_of(engine, component="unet", *, python=None, env=None, **options):
    return SimpleNamespace(
        case=case(component=component, engine=engine.name),
        engine=engine,
        request=EngineRequest(engine.name, engine.name, tuple(options.items()), python=python, env=env or {}),
        context=SimpleNamespace(device=CARD, turns=Turns()),
        model=SimpleNamespace(config=lambda component: {"channels": 3}),
        build=lambda component: SimpleNamespace(path=Path(f"{component}.onnx"), dtype="float16"),
        inputs=lambda: {"sample": np.ones(3, "float32")},
    )


@pytest.mark.parametrize(
    ("runner", "reason"),
    [
        (runner_of(OrtCudaEngine(), cuda_graph="on", tf32="on", sdpa="flash"), ""),
        (runner_of(OrtCudaEngine(), "vae_decoder"), "no bare loop runs the vae_decoder on ort-cuda"),
        (
            runner_of(OrtCudaEngine(), cuda_graph="on", stream="torch", graph_optimizations="off"),
            "the bare loop has no stream=torch, graph_optimizations=off; leave it out of --engine",
        ),
        (runner_of(OrtCpuEngine(), threads="3"), "the bare loop has no threads=3; leave it out of --engine"),
        (
            runner_of(TorchEngine(), channels_last="on"),
            "the bare loop has no channels_last=on; leave it out of --engine",
        ),
    ],
)
def test_an_option_is_passed_on_or_refused(program, runner, reason):
    assert program.why_not(runner) == reason


def test_every_option_of_the_provider_is_that_of_the_engine(program, tmp_path):
    engine = OrtCudaEngine()
    *_, provider, options = program.command_of(runner_of(engine, cuda_graph="on", conv_search="heuristic"), tmp_path)
    assert provider == "CUDAExecutionProvider"
    assert json.loads(options) == {
        "device_id": "0",
        "enable_cuda_graph": "1",
        "cudnn_conv_algo_search": "HEURISTIC",
        "use_tf32": "1",
    }


def test_a_loop_runs_in_its_turn_on_the_device_and_under_the_interpreter_of_the_case(program, tmp_path, monkeypatch):
    runner = runner_of(OrtCudaEngine(), python=Path("/venvs/next/bin/python"), env={"ORT_LOG": "1"})
    seen = []

    def run(command, *, env, **keywords):
        seen.append((command[0], env, runner.context.turns.taken))
        return SimpleNamespace(stdout="said\n[1.0, 3.0, 2.0]\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert program.bare_loop_ms.__wrapped__(runner, tmp_path)() == 2.0
    ((python, env, turn),) = seen
    assert python == "/venvs/next/bin/python"
    assert env == {**os.environ, "ORT_LOG": "1", "CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert turn.startswith("a bare loop of ")
    assert program.command_of(runner_of(OrtCudaEngine()), tmp_path)[0] == sys.executable


OFF = "Failed: ours {} the bare loops before and after, which took {}; {} % is allowed"
NO_REFERENCE_ERROR = (
    "Skipped: no comparison: the bare loops before and after took 36.000 and 37.500 ms, 4.17 % apart; ours 109.500 ms"
)


@pytest.mark.parametrize(
    ("kind", "ours", "loops", "told"),
    [
        ("cuda", 36.6, (36.4, 36.6), ""),
        ("cuda", 37.2, (36.4, 36.6), ""),
        ("cuda", 37.3, (36.4, 36.6), OFF.format("37.300 ms is 2.2 % above", "36.400 and 36.600 ms", 2)),
        ("cuda", 109.5, (36.5, 36.5), OFF.format("109.500 ms is 200 % above", "36.500 and 36.500 ms", 2)),
        ("cuda", 109.5, (36.0, 37.5), NO_REFERENCE_ERROR),
        ("cpu", 38.2, (36.4, 36.6), ""),
        ("cpu", 34.8, (36.4, 36.6), ""),
        ("cpu", 38.5, (36.4, 36.6), OFF.format("38.500 ms is 5.5 % above", "36.400 and 36.600 ms", 5)),
        ("cpu", 34.5, (36.6, 36.4), OFF.format("34.500 ms is 5.5 % below", "36.600 and 36.400 ms", 5)),
    ],
)
def test_a_measurement_that_is_off_fails_where_the_loops_agree(program, kind, ours, loops, told):
    left, runner = iter(loops), runner_of(OrtCudaEngine())
    runner.context.device = dataclasses.replace(CARD, kind=kind)
    unseen, said = SimpleNamespace(disabled=contextlib.nullcontext), ""
    try:
        program.test_the_suites_measure_what_a_bare_loop_measures(
            runner, lambda runner: SimpleNamespace(latency_s=ours / 1e3), left.__next__, unseen
        )
    except (pytest.fail.Exception, pytest.skip.Exception) as outcome:
        said = f"{type(outcome).__name__}: {outcome}"
    assert said == told
