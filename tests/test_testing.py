"""The kit for authors: our own plug-ins pass, and every broken promise is named."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
import torch

from pytest_sdperf.core.contracts import EngineOption
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.models import sd15
from pytest_sdperf.testing import ContractError, check_engine, check_model
from pytest_sdperf.testing.probe_model import ProbeModel


@pytest.mark.parametrize("engine", [OrtCpuEngine(), TorchEngine()], ids=lambda engine: engine.name)
def test_our_engines_pass(engine, tmp_path):
    check_engine(engine, folder=tmp_path)


@pytest.mark.slow
def test_a_thin_model_passes(tmp_path):
    check_model(next(model for model in sd15.MODELS if model.thin), folder=tmp_path)


class Broken(OrtCpuEngine):
    """An engine that breaks one promise."""

    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"name": "My Engine"}, "engine name 'My Engine' is not lower case words joined by hyphens"),
        ({"consumes": "tensorrt"}, "ort-cpu: consumes is 'tensorrt'; use 'onnx' or 'module'"),
        ({"device_kinds": ("cuda",)}, "ort-cpu: device_kinds lack 'cpu'"),
        (
            {"options": {"mode": EngineOption("x", "A mode.", choices=("a", "b"))}},
            "ort-cpu: the default 'x' of option 'mode' is not an allowed value",
        ),
        ({"options": {"mode": EngineOption("x", " ")}}, "ort-cpu: option 'mode' has no help"),
        (
            {"missing": lambda kind: "package 'x' is not installed"},
            "ort-cpu: missing() says \"package 'x' is not installed\"; install that before the check",
        ),
        (
            {"default_optimizations": lambda kind: ()},
            "ort-cpu: default_optimizations('cpu') is empty; nothing would run",
        ),
        (
            {"supports": lambda optimization: "it has no kernel"},
            "ort-cpu: 'fp32' is a default optimization, but supports() refuses it: it has no kernel",
        ),
        (
            {"versions": dict},
            "ort-cpu: versions() returned {}; expected library name -> version text",
        ),
    ],
)
def test_a_broken_declaration_is_named(attributes, text, tmp_path):
    with pytest.raises(ContractError) as caught:
        check_engine(Broken(**attributes), folder=tmp_path)
    assert str(caught.value) == text


class Wrapped:
    """Passes everything on to a real runner, but for one method."""

    def __init__(self, runner, **methods):
        self.bind, self.run, self.synchronize = runner.bind, runner.run, runner.synchronize
        self.run_plainly = runner.run_plainly
        self.fetch, self.facts = runner.fetch, runner.facts
        for name, method in methods.items():
            setattr(self, name, method(runner))


def bind_once(runner):
    bound = []

    def bind(inputs):
        if not bound:
            runner.bind(inputs)
        bound.append(inputs)

    return bind


def run_others(runner):
    def run_plainly():
        runner.bind({"sample": np.ones((2, 8), "float32"), "timestep": np.ones(1, "int64")})
        runner.run()

    return run_plainly


def aliasing(runner):
    memory = {}

    def fetch():
        for name, array in runner.fetch().items():
            memory.setdefault(name, array)[...] = array
        return dict(memory)

    return fetch


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ({"fetch": aliasing}, "fetch() returned memory that the next run() wrote over; return a copy"),
        (
            {"bind": bind_once},
            "after bind() with other inputs, run() computed the same outputs",
        ),
        (
            {"fetch": lambda runner: lambda: {k: v[:1] for k, v in runner.fetch().items()}},
            "out_sample has shape (1, 8); expected (2, 8)",
        ),
        (
            {"fetch": lambda runner: lambda: {k: v.astype("float64") for k, v in runner.fetch().items()}},
            "out_sample has dtype float64; expected float32",
        ),
        (
            {"fetch": lambda runner: lambda: {"y": runner.fetch()["out_sample"]}},
            "tensors are named ['y']; expected ['out_sample']",
        ),
        (
            {"fetch": lambda runner: lambda: {k: v * np.nan for k, v in runner.fetch().items()}},
            "out_sample holds values that are not finite",
        ),
        (
            {"fetch": lambda runner: lambda: {k: v + 1 for k, v in runner.fetch().items()}},
            "the outputs differ from the component's by up to 1.0e+00",
        ),
        ({"run_plainly": run_others}, "run_plainly() computed other outputs than run()"),
        (
            {"facts": lambda runner: lambda: {"providers": {1, 2}}},
            "facts() is not plain JSON data: Object of type set is not JSON serializable",
        ),
        (
            {"facts": lambda runner: lambda: {"energy_j": 12.3}},
            (
                "unknown fact 'energy_j'. Known: accumulation, attention, changed_inputs, compile, compile_cache, "
                "conv_search, cpu_node_count, cpu_nodes, cuda_graph, file_nodes, layers, memcpy_nodes, own, "
                "partitions, partitions_not_available, placement, placement_not_available, providers, "
                "shape_node_count, tf32, threads, tuning. "
                'ort-cpu tells it: put what is an engine\'s own under "own", as {"own": {"energy_j": ...}}.'
            ),
        ),
    ],
)
def test_a_broken_runner_is_named(methods, text, tmp_path):
    class Engine(OrtCpuEngine):
        @contextlib.contextmanager
        def load(self, request):
            with super().load(request) as runner:
                yield Wrapped(runner, **methods)

    with pytest.raises(ContractError) as caught:
        check_engine(Engine(), folder=tmp_path)
    assert str(caught.value) == text


def test_inputs_that_an_engine_changes_are_named(tmp_path):
    class Engine(OrtCpuEngine):
        @contextlib.contextmanager
        def load(self, request):
            with super().load(request) as runner:

                def bind(inputs):
                    runner.bind(inputs)
                    inputs["timestep"] += 0
                    inputs["sample"][0, 0] += 1e-4

                wrapped = Wrapped(runner)
                wrapped.bind = bind
                yield wrapped

    with pytest.raises(ContractError) as caught:
        check_engine(Engine(), folder=tmp_path)
    assert str(caught.value) in (
        "the caller's input arrays were changed",
        "the first inputs, bound again, gave other outputs",
    )


def test_the_smallest_model_passes(tmp_path):
    check_model(ProbeModel(), folder=tmp_path)


def _with_lost_buffer(model):
    def module(component, *, weights, **options):
        made = ProbeModel.module(model, component, weights=weights, **options)
        if weights is None:
            made.register_buffer("steps", torch.arange(3, device="meta"), persistent=False)
        return made

    return module


def _zeros(model):
    return lambda *a, **k: {n: np.zeros_like(v) for n, v in ProbeModel.example(model, *a, **k).items()}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: setattr(m, "components", ()), "probe has no components"),
        (lambda m: setattr(m, "height", 500), "probe: height 500 is not divisible by 8"),
        (
            lambda m: setattr(m, "module", _with_lost_buffer(m)),
            "probe unet: buffers steps have no values where weights is None; no file stores them",
        ),
        (lambda m: setattr(m, "example", _zeros(m)), "probe unet: example input sample is all zeros"),
        (
            lambda m: setattr(m, "weight", lambda: np.ones((8, 8), np.float32)),
            "probe unet: weight weight is constant, which hides wiring faults; randomise it",
        ),
        (
            lambda m: setattr(m, "weight", lambda: ProbeModel.weight(m) * 1e6),
            "probe unet: outputs reach",
        ),
    ],
)
def test_a_broken_model_is_named(change, text, tmp_path):
    model = dataclasses.replace(ProbeModel())
    change(model)
    with pytest.raises(ContractError) as caught:
        check_model(model, folder=tmp_path)
    assert str(caught.value).startswith(text)
