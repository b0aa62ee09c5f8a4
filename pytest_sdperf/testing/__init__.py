"""The kit that authors run on their own plug-ins. Nothing in the package imports it.

Example, in the tests of a project that adds an engine::

    from pytest_sdperf.testing import check_engine

    def test_engine_keeps_the_contract(tmp_path):
        check_engine(AcmeEngine(), folder=tmp_path)
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Engine, LoadRequest, Model, Runner
from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.core.values import Build, TensorSpec, Workload
from pytest_sdperf.core.values.facts import known_facts
from pytest_sdperf.testing.probe_model import ProbeModel

if TYPE_CHECKING:
    import numpy as np

    Tensors = dict[str, np.ndarray[Any, Any]]

NAME = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
SMALL = Workload(batch_size=1, height=64, width=64, steps=2, scheduler="ddim")


class ContractError(AssertionError):
    """A plug-in breaks a promise of `pytest_sdperf.core.contracts`; the text says which and what is expected."""


def _require(condition: object, text: str) -> None:
    if not condition:
        raise ContractError(text)


def check_engine(engine: Engine, *, folder: Path, device_kind: str = "cpu") -> None:
    """Check an engine's declarations, load a tiny component with it and check every method of its runner.

    Args:
        engine: The engine; its packages must be installed.
        folder: An empty folder for the component's files.
        device_kind: Where to run: `cpu`, `cuda` or `rocm`.

    Raises:
        ContractError: The first promise that is broken.
    """
    _check_engine_declarations(engine, device_kind)
    model = ProbeModel()
    build = model.build(engine.consumes, folder)
    request = LoadRequest(
        build=build,
        model=model,
        component="unet",
        workload=SMALL,
        device_kind=device_kind,  # type: ignore[arg-type]  # checked against the engine's kinds
        device_index=0,
        options={name: option.default for name, option in engine.options.items()},
        work_dir=folder,
    )
    with engine.load(request) as runner:
        _check_runner(runner, model, build)
        _check_facts(engine, runner)
        versions = engine.versions()
    named = versions and all(versions.values())
    _require(named, f"{engine.name}: versions() returned {versions!r}; expected library name -> version text")


def _check_engine_declarations(engine: Engine, device_kind: str) -> None:
    name = engine.name
    _require(NAME.fullmatch(name), f"engine name {name!r} is not lower case words joined by hyphens")
    _require(engine.consumes in ("onnx", "module"), f"{name}: consumes is {engine.consumes!r}; use 'onnx' or 'module'")
    _require(device_kind in engine.device_kinds, f"{name}: device_kinds lack {device_kind!r}")
    for key, option in engine.options.items():
        fits = option.default in option.choices if option.choices else re.fullmatch(option.pattern, option.default)
        _require(fits, f"{name}: the default {option.default!r} of option {key!r} is not an allowed value")
        _require(option.help.strip(), f"{name}: option {key!r} has no help")
    reason = engine.missing(device_kind)  # type: ignore[arg-type]  # checked above
    _require(reason is None, f"{name}: missing() says {reason!r}; install that before the check")
    optimizations = engine.default_optimizations(device_kind)
    _require(optimizations, f"{name}: default_optimizations({device_kind!r}) is empty; nothing would run")
    for optimization in optimizations:
        why = engine.supports(optimization)
        _require(why is None, f"{name}: {optimization!r} is a default optimization, but supports() refuses it: {why}")


def _check_runner(runner: Runner, model: ProbeModel, build: Build) -> None:
    import numpy as np

    first, second = (dict(model.example("unet", SMALL, seed=seed)) for seed in (0, 1))
    untouched = {name: array.copy() for name, array in first.items()}
    outputs = _run(runner, first)
    _check_tensors(outputs, model.outputs("unet", SMALL), build.dtype)
    expected = model.expected(first)
    error = max(float(np.abs(outputs[name].astype("float64") - expected[name]).max()) for name in expected)
    _require(error < 1e-3, f"the outputs differ from the component's by up to {error:.1e}")
    kept = {name: array.copy() for name, array in outputs.items()}
    other = _run(runner, second)
    changed = all(np.abs(other[name] - kept[name]).max() > 1e-3 for name in kept)
    _require(changed, "after bind() with other inputs, run() computed the same outputs")
    same = all(np.array_equal(outputs[name], kept[name]) for name in kept)
    _require(same, "fetch() returned memory that the next run() wrote over; return a copy")
    again = _run(runner, first)
    close = all(np.allclose(again[name], kept[name], atol=1e-5) for name in kept)
    _require(close, "the first inputs, bound again, gave other outputs")
    runner.run_plainly()
    runner.synchronize()
    plain = runner.fetch()
    close = all(np.allclose(plain[name], kept[name], atol=1e-5) for name in kept)
    _require(close, "run_plainly() computed other outputs than run()")
    unchanged = all(np.array_equal(first[name], untouched[name]) for name in first)
    _require(unchanged, "the caller's input arrays were changed")


def _run(runner: Runner, inputs: Tensors) -> Tensors:
    runner.bind(inputs)
    runner.run()
    runner.synchronize()
    return runner.fetch()


def _check_facts(engine: Engine, runner: Runner) -> None:
    facts = runner.facts()
    try:
        json.dumps(known_facts(facts, engine.name))
    except UnknownNameError as error:
        raise ContractError(str(error)) from None
    except (TypeError, ValueError) as error:
        raise ContractError(f"facts() is not plain JSON data: {error}") from None


def _check_tensors(tensors: Tensors, specs: tuple[TensorSpec, ...], dtype: str) -> None:
    import numpy as np

    names = [spec.name for spec in specs]
    _require(sorted(tensors) == sorted(names), f"tensors are named {sorted(tensors)}; expected {sorted(names)}")
    for spec in specs:
        array = tensors[spec.name]
        expected = dtype if spec.dtype == "float" else spec.dtype
        _require(array.shape == spec.shape, f"{spec.name} has shape {array.shape}; expected {spec.shape}")
        _require(array.dtype == expected, f"{spec.name} has dtype {array.dtype}; expected {expected}")
        _require(np.isfinite(array).all(), f"{spec.name} holds values that are not finite")


def check_model(model: Model, *, folder: Path, workload: Workload = SMALL) -> None:
    """Check a model's declarations, and every component with drawn weights on the CPU.

    Args:
        model: The model; take a thin one, because every component is executed.
        folder: An empty folder for weights.
        workload: Shapes to check at.

    Raises:
        ContractError: The first promise that is broken.
    """
    _require(NAME.fullmatch(model.name), f"model name {model.name!r} is not lower case words joined by hyphens")
    _require(model.components, f"{model.name} has no components")
    for size in ("height", "width"):
        pixels = getattr(model, size)
        _require(pixels > 0 and pixels % 8 == 0, f"{model.name}: {size} {pixels} is not divisible by 8")
    for component in model.components:
        _check_component(model, component, folder, workload)


def _check_component(model: Model, component: str, folder: Path, workload: Workload) -> None:
    import numpy as np
    import torch

    what = f"{model.name} {component}"
    json.dumps(model.config(component))
    lost = [name for name, buffer in model.module(component, weights=None).named_buffers() if buffer.is_meta]
    _require(not lost, f"{what}: buffers {', '.join(lost)} have no values where weights is None; no file stores them")
    first, again, other = (dict(model.example(component, workload, seed=seed)) for seed in (0, 0, 1))
    _check_tensors(first, model.inputs(component, workload), "float32")
    for name, array in first.items():
        _require(np.array_equal(array, again[name]), f"{what}: example input {name} differs between equal calls")
        _require(array.any(), f"{what}: example input {name} is all zeros")
    differs = any(not np.array_equal(array, other[name]) for name, array in first.items())
    _require(differs, f"{what}: another seed gives the same example")
    path = folder / f"{component}.safetensors"
    model.draw_weights(component, path, seed=0)
    _check_weights(what, path)
    module = model.module(component, weights=path).eval()
    with torch.inference_mode():
        outputs = module(*(torch.from_numpy(first[spec.name]) for spec in model.inputs(component, workload)))
    specs = model.outputs(component, workload)
    _require(len(outputs) == len(specs), f"{what}: forward returned {len(outputs)} tensors; expected {len(specs)}")
    named = {spec.name: tensor.numpy() for spec, tensor in zip(specs, outputs, strict=True)}
    _check_tensors(named, specs, "float32")
    largest = max(float(np.abs(array).max()) for array in named.values())
    _require(0 < largest < 6e4, f"{what}: outputs reach {largest:.1e}; keep activations inside float16's range")


def _check_weights(what: str, path: Path) -> None:
    from safetensors.numpy import load_file

    for name, array in load_file(path).items():
        _require(array.dtype == "float32", f"{what}: weight {name} has dtype {array.dtype}; expected float32")
        constant = array.size > 1 and (array == array.flat[0]).all()
        _require(not constant, f"{what}: weight {name} is constant, which hides wiring faults; randomise it")
