"""Load one component, run it once for its outputs or measure it."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from pytest_sdperf.core.files.arrays import load_arrays, save_arrays
from pytest_sdperf.core.values import Facts, Sample
from pytest_sdperf.core.values.recipe import ModuleRecipe, SessionRecipe
from pytest_sdperf.tasks import TaskContext, _runtime_report
from pytest_sdperf.tasks._execution import MeasureCase, Measured, Ran, RunCase
from pytest_sdperf.tasks._loading import loaded_component
from pytest_sdperf.tasks.sampling.phases import Shared
from pytest_sdperf.tasks.sampling.timing import Timing, take_sample, timed


def run(request: RunCase, context: TaskContext) -> Ran:
    """Run the component once and write `outputs.npz`, one array per output, and if asked for `inside.npz`."""
    case = request.case
    inside: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        loaded = stack.enter_context(loaded_component(case, case.component, context))
        if request.inside:
            inside = stack.enter_context(loaded.runner.inside(blocks=request.blocks))
        loaded.runner.bind(load_arrays(case.inputs))
        loaded.runner.run()
        loaded.runner.synchronize()
        outputs = loaded.runner.fetch()
        recipe = loaded.runner.recipe() if request.inside else None
    return Ran(
        outputs=str(save_arrays(context.out_dir / "outputs.npz", outputs)),
        inside=str(save_arrays(context.out_dir / "inside.npz", inside)) if inside else "",
        session=recipe if isinstance(recipe, SessionRecipe) else None,
        module=recipe if isinstance(recipe, ModuleRecipe) else None,
    )


def measure(request: MeasureCase, context: TaskContext, *, timing: Timing = timed) -> Measured:
    """Measure the component: load, two first runs, warm-up, timed calls on bound inputs; then see what ran."""
    case = request.case
    with loaded_component(case, case.component, context) as loaded:
        runner = loaded.runner
        inputs = load_arrays(case.inputs)
        runner.bind(inputs)

        def call() -> None:
            runner.run()
            runner.synchronize()

        sample: Sample = take_sample(
            call,
            request.plan,
            listener=Shared(context.listener, [runner]),
            on_cpu=case.device_kind == "cpu",
            allocator_peak=runner.allocator_peak_bytes,
            timing=timing,
        )
        facts: Facts = {"versions": loaded.engine.versions(), **loaded.facts()}
        if request.what_ran:
            facts = _runtime_report.of_component(
                loaded, call, facts=facts, inputs=inputs, case=case, folder=context.out_dir
            )
        return Measured(dataclasses.replace(sample, load_s=loaded.load_s, facts={**sample.facts, **facts}))
