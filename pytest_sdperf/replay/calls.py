"""What a loaded case is called with, one call after the other, and what it and torch answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.building.outputs import Compute, cached_outputs
from pytest_sdperf.checking.agreement import TORCH_CODE, by_torch, floating_of, plain_runner
from pytest_sdperf.checking.given_pipeline import GivenPipelineRunner
from pytest_sdperf.checking.reference_keys import reference_keys
from pytest_sdperf.errors import NoReferenceError
from pytest_sdperf.executing.runner import PROMPT, CaseRunner
from pytest_sdperf.files.arrays import load_arrays, save_arrays
from pytest_sdperf.values import Workload, to_json
from pytest_sdperf.values.replays import Replay
from pytest_sdperf.values.roundings import labels
from pytest_sdperf.yardsticks import REFERENCE

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

# Of image i of a batch; the first one is that of every other test.
PROMPTS = (
    PROMPT,
    "beautiful scenery in a glass bottle, a purple galaxy behind it",
    "a large red circle left of a small blue square on a white background",
    "an oil painting of a lighthouse in a storm",
)
_TASK = "pytest_sdperf.tasks.replay"


@dataclasses.dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        name: What the report calls it.
        workload: Its size.
        prompts: Of each image; a component has seeded inputs instead.
        seed: Of the inputs of a component, or of the initial latents of a request.
        drawn: Images that are drawn from the seed.
        rows: Which rows of what was drawn are given, in this order: of a component along the first axis (a guided UNet
            has two for each image), of a request images. Empty for all of them.
    """

    name: str
    workload: Workload
    prompts: tuple[str, ...]
    seed: int = 0
    drawn: int = 0
    rows: tuple[int, ...] = ()


Asked = Mapping[str, tuple[Sequence[Call], str]]  # name -> calls, and the floating type in which they are answered


@dataclasses.dataclass(frozen=True)
class Answers:
    """What calls of one loaded case brought.

    Attributes:
        outputs: Arrays by output name, of each call.
        overwritten: Outputs that a later call changed.
        prepared: Graphs that the engine had compiled after each call; empty where it cannot tell.
        peaks_bytes: What told it -> peak memory of each call.
    """

    outputs: Sequence[Arrays]
    overwritten: tuple[str, ...]
    prepared: tuple[int, ...]
    peaks_bytes: Mapping[str, Sequence[int]]

    def prepared_by(self, first: int) -> dict[str, int]:
        """Return how many graphs the `first` calls made, and how many all later ones."""
        if not self.prepared:
            return {}
        return {"first": self.prepared[first - 1], "later": self.prepared[-1] - self.prepared[first - 1]}


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What torch answers to calls.

    Attributes:
        floating: Floating type that is tested.
        exact: Answers of higher precision.
        rough: Answers in that floating type, of each call in one rounding or several: the yardstick.
    """

    floating: str
    exact: Sequence[Arrays]
    rough: Sequence[Sequence[Arrays]]


def is_plain_torch(runner: CaseRunner) -> str:
    """Say that a case is what others are compared with, and what to type; empty if it is not."""
    if runner.case.engine == "torch" and not runner.case.engine_options:
        return (
            "not applicable: plain torch is what the others are compared with; name another engine, or options of this "
            "one, such as --sdperf-engine=torch:channels_last=on"
        )
    return ""


def one_size(runner: CaseRunner) -> str:
    """Say why a loaded case serves one size alone, and what to type; empty if it serves others too."""
    engine = runner.engine
    if not engine.resizes:
        return f"not applicable: {engine.name} serves the size that it was loaded for, and no other"
    if runner.case.shapes != "static":
        return ""
    told = "export it with dynamic axes" if runner.case.exporter == "given" else "type --sdperf-shapes=dynamic"
    return f"not applicable: the graph takes one size alone; {told}"


def make_calls(runner: CaseRunner, calls: Sequence[Call]) -> Answers:
    """Load the case once, in a fresh process, and make calls.

    Raises:
        SdperfError: The engine refused, crashed, hung or ran out of memory.
    """
    answer = runner.task("run", call_arguments(runner, calls), module="replay")
    return Answers(
        outputs=_by_call(load_arrays(Path(answer["outputs"])), len(calls)),
        overwritten=tuple(answer["overwritten"]),
        prepared=tuple(answer["prepared"]),
        peaks_bytes=answer["peaks_bytes"],
    )


def judged(runner: CaseRunner, calls: Sequence[Call], torch: Wanted, make: Callable[[Wanted], Replay]) -> Replay:
    """Compare with torch: where a request is beyond a limit of one rounding, with several (`comparing.roundings`).

    Args:
        runner: The case.
        calls: What was asked.
        torch: What torch answers, in one rounding.
        make: Compares with what torch answers.

    Raises:
        As `wanted`.
    """
    replay = make(torch)
    if not runner.is_pipeline or not replay.beyond:
        return replay
    return make(wanted(runner, calls, several=True))


def wanted(runner: CaseRunner, calls: Sequence[Call], *, several: bool = False) -> Wanted:
    """Return what torch answers to the same calls, if asked for in several roundings; from the cache if it is there.

    Raises:
        NoReferenceError: There is no torch module.
        SdperfError: Torch could not run.
    """
    if not by_torch(runner):
        raise NoReferenceError(
            f"nothing to compare the answers of {runner.case.model} with: --sdperf-onnx-dir holds graphs alone. Type "
            f"--sdperf-weights=FOLDER with the diffusers folder that they were exported from."
        )
    floating = floating_of(runner)
    rough = (floating, *(labels(floating) if several else ()))
    found = of_torch(runner, [calls], (REFERENCE[floating], *rough))
    exact, *others = (_by_call(found[_name(0, name)], len(calls)) for name in (REFERENCE[floating], *rough))
    return Wanted(floating, exact, list(zip(*others, strict=True)))


def of_torch(runner: CaseRunner, groups: Sequence[Sequence[Call]], floatings: Sequence[str]) -> dict[str, Arrays]:
    """Return what torch answers to groups of calls; what the cache lacks is computed in one process.

    Args:
        runner: Of the case whose weights are taken.
        groups: Calls that belong together.
        floatings: Floating types in which torch answers, each with the number of a rounding where it has one.
    """
    asked = {_name(number, one): (group, one) for number, group in enumerate(groups) for one in floatings}
    of = _of_own if isinstance(runner, GivenPipelineRunner) else _of_module
    keys, compute = of(runner, asked)

    def say_and_compute(missing: Sequence[str]) -> Mapping[str, Any]:
        runner.workbench.say(f"computing answers of {runner.case.model} {runner.case.component} with torch")
        return compute(missing)

    return cached_outputs(runner.workbench.cache, keys, say_and_compute)


def _of_module(runner: CaseRunner, asked: Asked) -> tuple[Mapping[str, str], Compute]:
    """Return keys in the cache, and what lets the torch module of a case answer."""
    plain = plain_runner(runner)

    def compute(missing: Sequence[str]) -> Mapping[str, Any]:
        jobs = {}
        for name in missing:
            group, floating = asked[name]
            arguments = call_arguments(plain, group)
            jobs[name] = {"floating": floating, "calls": arguments.pop("calls")}
        return plain.task("reference", {**arguments, "jobs": jobs}, module="replay")

    variants = {
        name: {"floating": floating, "calls": [to_json(call) for call in group]}
        for name, (group, floating) in asked.items()
    }
    return reference_keys(plain, variants, code=(_TASK, TORCH_CODE)), compute


def _of_own(runner: CaseRunner, asked: Asked) -> tuple[Mapping[str, str], Compute]:
    """Return keys in the cache, and what lets plain diffusers answer for a pipeline of the user's own."""
    assert isinstance(runner, GivenPipelineRunner)
    told = {name: (floating, call_arguments(runner, group)["calls"]) for name, (group, floating) in asked.items()}
    keys = {name: runner.answer_key(*one) for name, one in told.items()}
    return keys, lambda missing: runner.compute_answers({name: told[name] for name in missing})


def _name(number: int, floating: str) -> str:
    return f"{number}-{floating}"


def _by_call(arrays: Arrays, count: int) -> Sequence[Arrays]:
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, array in arrays.items():
        number, _, output = name.partition(".")
        found[int(number)][output] = array
    return found


def call_arguments(runner: CaseRunner, calls: Sequence[Call]) -> dict[str, Any]:
    """Return the arguments of a task that makes calls on one loaded case."""
    sizes = {(call.workload.batch_size, call.workload.height, call.workload.width) for call in calls}
    case = runner.case
    resized = sizes != {(case.batch_size, case.height, case.width)}
    shared = {name: value for name, value in runner.arguments({}).items() if name != "inputs"}
    return {**shared, "calls": [{**_told(runner, call), "resized": resized} for call in calls]}


def _told(runner: CaseRunner, call: Call) -> dict[str, Any]:
    work = to_json(call.workload)
    if runner.is_pipeline:
        rows = call.rows or tuple(range(call.drawn or call.workload.batch_size))
        drawn = call.drawn or call.workload.batch_size
        return {"workload": work, "prompts": list(call.prompts), "seed": call.seed, "rows": rows, "drawn": drawn}
    file = runner.workbench.new_folder("inputs") / "inputs.npz"
    return {"workload": work, "inputs": str(save_arrays(file, _inputs(runner, call)))}


def _inputs(runner: CaseRunner, call: Call) -> Arrays:
    """Draw the inputs of a component, and pick rows of those that have one for each row of the batch."""
    model, component = runner.model, runner.case.component
    whole = dataclasses.replace(call.workload, batch_size=call.drawn or call.workload.batch_size)
    drawn = model.example(component, whole, seed=call.seed)
    if not call.rows:
        return drawn
    batched = {spec.name for spec in model.inputs(component, whole) if spec.axes.get(0) == "batch"}
    return {name: array[list(call.rows)] if name in batched else array for name, array in drawn.items()}
