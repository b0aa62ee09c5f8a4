"""Load a case once and call it with several inputs, one after the other: what it answers, and what it keeps."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_sdperf.core.components import IMAGE, PIPELINE
from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.files.arrays import Arrays, load_arrays, save_arrays
from pytest_sdperf.core.machine import host_memory
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import CallRequest, Execution
from pytest_sdperf.tasks._kept import Held, on_host
from pytest_sdperf.tasks._loading import loaded_component
from pytest_sdperf.tasks._made_pipeline import made_pipeline
from pytest_sdperf.tasks._plain_twin import check_described
from pytest_sdperf.tasks.external_pipeline import check_shown
from pytest_sdperf.tasks.pipeline import loaded_request
from pytest_sdperf.tasks.plain_pipeline import called
from pytest_sdperf.tasks.reference import in_dtype
from pytest_sdperf.tasks.request.whole_call import images_of

Ask = Callable[[CallRequest], Arrays]


@dataclass(frozen=True)
class MakeCalls:
    """Load a case once and make calls.

    Attributes:
        case: The case.
        calls: What it is called with, one after the other.
    """

    case: Execution
    calls: tuple[CallRequest, ...]


@dataclass(frozen=True)
class CallsMade:
    """What calls of one loaded case gave.

    Attributes:
        outputs: File (npz) with `NUMBER.OUTPUT`, calls numbered from 0.
        overwritten: Outputs that a later call changed.
        prepared: How many graphs the engine had compiled after each call; empty where it cannot tell.
        peaks_bytes: What told it -> peak memory of each call.
    """

    outputs: str
    overwritten: tuple[str, ...]
    prepared: tuple[int, ...]
    peaks_bytes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class CallGroup:
    """Calls that torch answers together.

    Attributes:
        calls: The calls.
        dtype: In which it answers, with the number of a rounding where it has one (`roundings.labels`).
    """

    calls: tuple[CallRequest, ...]
    dtype: str


@dataclass(frozen=True)
class AnswerGroups:
    """Answer several groups of calls, one after the other.

    Attributes:
        case: What answers.
        groups: By name.
    """

    case: Execution
    groups: Mapping[str, CallGroup]


def run(request: MakeCalls, context: TaskContext) -> CallsMade:
    """Make calls on one loaded case and write `outputs.npz`."""
    case = request.case
    loaded = _own_pipeline if case.own is not None else _request if case.component == PIPELINE else _component
    answers, compiled, peaks = [], list[int](), list[Mapping[str, int]]()
    with loaded(case, context) as (ask, held, runners):
        for call in request.calls:
            with _peak(runners, peaks):
                answers.append(ask(call))
            compiled += prepared(runners)
        overwritten = held.changed()
    outputs = {f"{number}.{name}": array for number, answer in enumerate(answers) for name, array in answer.items()}
    ways = set.intersection(*(set(peak) for peak in peaks)) if peaks else set()
    return CallsMade(
        outputs=str(save_arrays(context.out_dir / "outputs.npz", outputs)),
        overwritten=tuple(overwritten),
        prepared=tuple(compiled),
        peaks_bytes={way: tuple(peak[way] for peak in peaks) for way in sorted(ways)},
    )


def reference(request: AnswerGroups, context: TaskContext) -> dict[str, str]:
    """Make several groups of calls, each in its dtype, one after the other.

    Returns:
        Name -> path of the npz file with the outputs.
    """
    paths = {}
    for name, group in request.groups.items():
        folder = context.out_dir / name
        folder.mkdir()
        own = dataclasses.replace(context, out_dir=folder)
        paths[name] = run(MakeCalls(in_dtype(request.case, group.dtype, context), group.calls), own).outputs
    return paths


@contextlib.contextmanager
def _component(case: Execution, context: TaskContext) -> Iterator[tuple[Ask, Held, Sequence[Runner]]]:
    held = Held()
    with loaded_component(case, case.component, context) as loaded:

        def ask(call: CallRequest) -> Arrays:
            if call.resized:
                loaded.runner.resize(call.workload)
            loaded.runner.bind(load_arrays(call.inputs))
            loaded.runner.run()
            loaded.runner.synchronize()
            outputs = loaded.runner.fetch()
            held.keep(outputs)
            return {name: array.copy() for name, array in outputs.items()}

        yield ask, held, [loaded.runner]


@contextlib.contextmanager
def _request(case: Execution, context: TaskContext) -> Iterator[tuple[Ask, Held, Sequence[Runner]]]:
    from pytest_sdperf.tasks.request.text_to_image import draw_noise

    held = Held()
    with loaded_request(case, context, held.watched) as (pipeline, parts):
        # The first one is asked for memory, as where requests are measured.
        runners = [parts[name].runner for name in sorted(parts, key=lambda name: name != "unet")]

        def ask(call: CallRequest) -> Arrays:
            workload = call.workload
            if call.resized:
                for runner in runners:
                    runner.resize(workload)
            one = pipeline.model.inputs("unet", workload)[0].shape[1:]
            noise = draw_noise((call.drawn, *one), call.seed)[list(call.rows)]
            result = pipeline.generate(
                call.prompts, seed=call.seed, workload=workload, noise=noise, rounding=case.picture.rounding
            )
            outputs = {IMAGE: on_host(result.image), "latents": on_host(result.latents)}
            held.keep(outputs)
            return {name: array.copy() for name, array in outputs.items()}

        yield ask, held, runners


@contextlib.contextmanager
def _own_pipeline(case: Execution, context: TaskContext) -> Iterator[tuple[Ask, Held, Sequence[Runner]]]:  # noqa: ARG001 - as the others
    held = Held()
    with made_pipeline(case) as pipeline:
        check_described(pipeline, case)

        def ask(call: CallRequest) -> Arrays:
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
