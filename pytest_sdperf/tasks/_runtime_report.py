"""What really ran, of a component or a whole request: written into the facts of a sample after everything is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_sdperf.core.files.arrays import Arrays, digest_of
from pytest_sdperf.core.values.facts import ChangedInputs, ComponentFacts, CudaGraph, Facts
from pytest_sdperf.tasks._changed_inputs import wrong_answer
from pytest_sdperf.tasks._execution import Execution
from pytest_sdperf.tasks._loading import LoadedComponent
from pytest_sdperf.tasks.sampling.profiling import Activity, watched

OTHER_SEED = 1
# A replayed call may still launch copies of its inputs into the graph's own memory.
MOST_LAUNCHES = 16


def of_component(
    loaded: LoadedComponent, call: Callable[[], None], *, facts: Facts, inputs: Arrays, case: Execution, folder: Path
) -> Facts:
    """Add to the facts of a component that has been timed.

    Args:
        loaded: The component; it has just run on `inputs`.
        call: One complete, synchronized call.
        facts: What its runner says.
        inputs: The bound inputs.
        case: What was executed.
        folder: Place for files.
    """
    promised = case.device_kind in loaded.engine.repeats_on
    told = answer(loaded.runner.fetch(), promised=promised)
    told["changed_inputs"] = _answered(loaded, facts, inputs=inputs, component=case.component, case=case)
    # Watching comes last: see `profiling`.
    activity = watched(call, device_kind=case.device_kind, folder=folder)
    replayed = activity.replays >= 1 and activity.launches <= MOST_LAUNCHES
    found: Facts = {**facts, **told, **_seen(activity)}
    return {**found, **_with_graph(found, activity, replayed=replayed)}


def of_request(
    parts: Mapping[str, LoadedComponent],
    call: Callable[[], None],
    *,
    facts: Facts,
    unet_calls: int,
    case: Execution,
    folder: Path,
) -> Facts:
    """Add to the facts of a pipeline that has been timed.

    Args:
        parts: Its components.
        call: One whole request.
        facts: What its runners say, those of each component under `components`.
        unet_calls: UNet calls of one request.
        case: What was executed.
        folder: Place for files.
    """
    own = facts["components"]
    answered: dict[str, ComponentFacts] = {
        name: {**own[name], **_after_a_run(part, own[name], component=name, case=case)} for name, part in parts.items()
    }
    activity = watched(call, device_kind=case.device_kind, folder=folder, calls=1)
    graphs = [name for name in parts if _requested(own[name])]
    replayed = activity.replays >= sum(unet_calls if name == "unet" else 1 for name in graphs)
    components = {name: _with_graph(known, activity, replayed=replayed) for name, known in answered.items()}
    return {**facts, **components["unet"], "components": components, **_seen(activity, unet_calls)}


def of_external_request(call: Callable[[], None], *, unet_calls: int, case: Execution, folder: Path) -> Facts:
    """Return what ran in one request to a pipeline that the user's own code made. Arguments as for `of_request`."""
    return _seen(watched(call, device_kind=case.device_kind, folder=folder, calls=1), unet_calls)


def answer(outputs: Arrays, *, promised: bool) -> Facts:
    """Return which answer the inputs of the case had, as a digest: so processes tell whether theirs are equal.

    Args:
        outputs: Of a call after everything was timed.
        promised: Whether what computed them promises equal bits on this kind of device.
    """
    return {"answer": {"digest": digest_of(outputs), "promised": promised}}


def _requested(facts: ComponentFacts) -> bool:
    return bool(facts.get("cuda_graph", {}).get("requested"))


def _after_a_run(part: LoadedComponent, facts: ComponentFacts, *, component: str, case: Execution) -> ComponentFacts:
    """Check a component of a pipeline alone, if it replays a graph; the image is compared with a reference anyway."""
    if not _requested(facts):
        return {}
    inputs = part.model.example(component, case.workload)
    part.runner.bind(inputs)
    part.runner.run()
    part.runner.synchronize()
    return {"changed_inputs": _answered(part, facts, inputs=inputs, component=component, case=case)}


def _answered(
    loaded: LoadedComponent, facts: ComponentFacts, *, inputs: Arrays, component: str, case: Execution
) -> ChangedInputs:
    other = loaded.model.example(component, case.workload, seed=OTHER_SEED)
    wrong = wrong_answer(loaded.runner, inputs, other, one_by_one=_requested(facts))
    return {"right": not wrong, "wrong": wrong}


def _with_graph(facts: ComponentFacts, activity: Activity, *, replayed: bool) -> ComponentFacts:
    """Complete the fact `cuda_graph`, where an engine has one."""
    if "cuda_graph" not in facts:
        return facts
    graph: CudaGraph = {"replayed": None, **facts["cuda_graph"], "changed_inputs": None}
    if _requested(facts):
        # What an engine says of itself counts where the profiler saw nothing, and where it says no.
        seen = bool(activity.replays or activity.launches or activity.kernels)
        graph["replayed"] = replayed and graph["replayed"] is not False if seen else graph["replayed"]
        graph["changed_inputs"] = facts["changed_inputs"]["right"]
    return {**facts, "cuda_graph": graph}


def _seen(activity: Activity, unet_calls: int = 0) -> Facts:
    if activity.unseen:
        return {"kernels_not_available": activity.unseen}
    facts: Facts = {
        "host_waits": {
            "synchronizations": activity.synchronizations,
            "copies": activity.copies_to_host,
            "unet_calls": unet_calls,
        },
        "kernels": dict(activity.kernels),
        "gpu_busy_s": activity.busy_s,
        "kernels_without_tensor_cores": dict(activity.without_tensor_cores),
        "gpu_busy_without_tensor_cores_s": activity.busy_without_tensor_cores_s,
        "kernels_slowest": list(activity.slowest),
    }
    if activity.others:
        facts["kernels_other"] = list(activity.others)
    return facts
