"""Load a case once and call it with several inputs, one after the other: what it answers, and what it keeps."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.components import IMAGE, PIPELINE
from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.files.arrays import load_arrays, save_arrays
from pytest_sdperf.core.machine import host_memory
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.roundings import parse
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._kept import Held, on_host
from pytest_sdperf.tasks._loading import loaded_component
from pytest_sdperf.tasks._made_pipeline import made_pipeline
from pytest_sdperf.tasks._plain_twin import check_described
from pytest_sdperf.tasks.external_pipeline import check_shown
from pytest_sdperf.tasks.pipeline import loaded_request
from pytest_sdperf.tasks.plain_pipeline import called
from pytest_sdperf.tasks.reference import in_dtype
from pytest_sdperf.tasks.request.whole_call import images_of

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

Ask = Callable[[Mapping[str, Any]], "Arrays"]


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Make calls on one loaded case and write `outputs.npz`: `NUMBER.OUTPUT`, calls numbered from 0.

    Args:
        arguments: As for the `run` of `tasks.component` or `tasks.pipeline`, with `calls`: of a component each with
            `inputs` (path of an npz file) and `workload`; of a pipeline with `prompts`, `seed`, `rows` (of the noise),
            `drawn` (rows that are drawn) and `workload`. `rounding` is the number of one of the initial latents.
        context: The task's context.

    Returns:
        `outputs`: path of the npz file; `overwritten`: outputs that a later call changed; `prepared`: after each call
        how many graphs the engine has compiled, empty where it cannot tell; `peaks_bytes`: way -> peak of each call.
    """
    loaded = _own_pipeline if "factory" in arguments else _request if arguments["component"] == PIPELINE else _component
    answers, compiled, peaks = [], list[int](), list[Mapping[str, int]]()
    with loaded(arguments, context) as (ask, held, runners):
        for call in arguments["calls"]:
            with _peak(runners, peaks):
                answers.append(ask(call))
            compiled += prepared(runners)
        overwritten = held.changed()
    outputs = {f"{number}.{name}": array for number, answer in enumerate(answers) for name, array in answer.items()}
    ways = set.intersection(*(set(peak) for peak in peaks)) if peaks else set()
    return {
        "outputs": str(save_arrays(context.out_dir / "outputs.npz", outputs)),
        "overwritten": overwritten,
        "prepared": compiled,
        "peaks_bytes": {way: [peak[way] for peak in peaks] for way in sorted(ways)},
    }


def reference(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Make several groups of calls, each in its dtype, one after the other.

    Args:
        arguments: As for `run`, with `jobs` instead of `calls`: name -> `calls` and `dtype`, a dtype with
            the number of a rounding where it has one.
        context: The task's context.

    Returns:
        Name -> path of the npz file with the outputs.
    """
    paths = {}
    for name, job in arguments["jobs"].items():
        folder = context.out_dir / name
        folder.mkdir()
        own = dataclasses.replace(context, out_dir=folder)
        dtype, rounding = parse(job["dtype"])
        asked = {**in_dtype(arguments, dtype, context), "calls": job["calls"], "rounding": rounding}
        paths[name] = run(asked, own)["outputs"]
    return paths


@contextlib.contextmanager
def _component(arguments: Mapping[str, Any], context: TaskContext) -> Iterator[tuple[Ask, Held, Sequence[Runner]]]:
    held = Held()
    with loaded_component(arguments, arguments["component"], context) as loaded:

        def ask(call: Mapping[str, Any]) -> Arrays:
            if call["resized"]:
                loaded.runner.resize(Workload(**call["workload"]))
            loaded.runner.bind(load_arrays(Path(call["inputs"])))
            loaded.runner.run()
            loaded.runner.synchronize()
            outputs = loaded.runner.fetch()
            held.keep(outputs)
            return {name: array.copy() for name, array in outputs.items()}

        yield ask, held, [loaded.runner]


@contextlib.contextmanager
def _request(arguments: Mapping[str, Any], context: TaskContext) -> Iterator[tuple[Ask, Held, Sequence[Runner]]]:
    from pytest_sdperf.tasks.request.text_to_image import draw_noise

    held = Held()
    with loaded_request(arguments, context, held.watched) as (pipeline, parts):
        # The first one is asked for memory, as where requests are measured.
        runners = [parts[name].runner for name in sorted(parts, key=lambda name: name != "unet")]

        def ask(call: Mapping[str, Any]) -> Arrays:
            workload = Workload(**call["workload"])
            if call["resized"]:
                for runner in runners:
                    runner.resize(workload)
            one = pipeline.model.inputs("unet", workload)[0].shape[1:]
            noise = draw_noise((call["drawn"], *one), call["seed"])[list(call["rows"])]
            result = pipeline.generate(
                call["prompts"],
                seed=call["seed"],
                workload=workload,
                noise=noise,
                rounding=arguments.get("rounding", 0),
            )
            outputs = {IMAGE: on_host(result.image), "latents": on_host(result.latents)}
            held.keep(outputs)
            return {name: array.copy() for name, array in outputs.items()}

        yield ask, held, runners


@contextlib.contextmanager
def _own_pipeline(arguments: Mapping[str, Any], context: TaskContext) -> Iterator[tuple[Ask, Held, Sequence[Runner]]]:  # noqa: ARG001 - as the others
    held = Held()
    with made_pipeline(arguments) as pipeline:
        check_described(pipeline, arguments)

        def ask(call: Mapping[str, Any]) -> Arrays:
            found = called(pipeline, call)()
            check_shown(found)
            held.hold(IMAGE, found.images)
            return {IMAGE: images_of(found).cpu().numpy()}

        yield ask, held, []


def prepared(runners: Sequence[Runner]) -> list[int]:
    """Return how many graphs were compiled until now, in a list; an empty one where nobody can tell."""
    told = [compiled["graphs"] for runner in runners if (compiled := runner.facts().get("compile"))]
    return [sum(told)] if told else []


@contextlib.contextmanager
def _peak(runners: Sequence[Runner], peaks: list[Mapping[str, int]]) -> Iterator[None]:
    """Append the peak memory of what is done inside, by what told it."""
    can_watch = host_memory.reset_peak()
    for runner in runners:
        runner.allocator_peak_bytes(reset=True)
    yield
    host = host_memory.peak_bytes() if can_watch else None
    allocator = runners[0].allocator_peak_bytes(reset=False) if runners else None
    found = {"host": host, "allocator": allocator}
    peaks.append({way: peak for way, peak in found.items() if peak is not None})
