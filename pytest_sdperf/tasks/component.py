"""Load one component, run it once for its outputs or measure it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.files.arrays import load_arrays, save_arrays
from pytest_sdperf.core.values import Sample, to_json
from pytest_sdperf.tasks import TaskContext, _runtime_report
from pytest_sdperf.tasks._loading import LoadedComponent, loaded_component
from pytest_sdperf.tasks.sampling.phases import Shared
from pytest_sdperf.tasks.sampling.timing import TimingPlan, take_sample


def _facts(loaded: LoadedComponent) -> dict[str, Any]:
    return {"versions": loaded.engine.versions(), **loaded.runner.facts()}


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Run the component once and write `outputs.npz`, one array per output.

    Args:
        arguments: As for `loading.loaded_component`, with `component` and `inputs` (path of an npz file); `inside`:
            whether what is inside is written too, to `inside.npz` (`Runner.inside`).
        context: The task's context.

    Returns:
        `outputs`: path of the npz file; `facts`: what ran; `inside`: path of that file, and `recipe` (`Runner.recipe`),
        both empty where they were not asked for.
    """
    inside: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        loaded = stack.enter_context(loaded_component(arguments, arguments["component"], context))
        if arguments.get("inside"):
            inside = stack.enter_context(loaded.runner.inside())
        loaded.runner.bind(load_arrays(Path(arguments["inputs"])))
        loaded.runner.run()
        loaded.runner.synchronize()
        outputs, facts = loaded.runner.fetch(), _facts(loaded)
        recipe = loaded.runner.recipe() if arguments.get("inside") else {}
    return {
        "outputs": str(save_arrays(context.out_dir / "outputs.npz", outputs)),
        "inside": str(save_arrays(context.out_dir / "inside.npz", inside)) if inside else "",
        "recipe": recipe,
        "facts": facts,
    }


def measure(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Measure the component: load, two first runs, warm-up, timed calls on bound inputs; then see what ran.

    Args:
        arguments: As for `run`, with `plan`: fields of `timing.TimingPlan`.
        context: The task's context.

    Returns:
        `sample`: a `values.Sample` as JSON.
    """
    with loaded_component(arguments, arguments["component"], context) as loaded:
        runner = loaded.runner
        inputs = load_arrays(Path(arguments["inputs"]))
        runner.bind(inputs)

        def call() -> None:
            runner.run()
            runner.synchronize()

        sample: Sample = take_sample(
            call,
            TimingPlan(**arguments["plan"]),
            listener=Shared(context.listener, [runner]),
            on_cpu=arguments["device_kind"] == "cpu",
            allocator_peak=runner.allocator_peak_bytes,
        )
        facts = _facts(loaded)
        if not arguments["plan"].get("slowdowns"):  # a self-test is about the times alone
            facts = _runtime_report.of_component(
                loaded, call, facts=facts, inputs=inputs, arguments=arguments, folder=context.out_dir
            )
        sample = dataclasses.replace(sample, load_s=loaded.load_s, facts={**sample.facts, **facts})
    return {"sample": to_json(sample)}
