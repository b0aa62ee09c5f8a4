"""Find where a component begins to be wrong: make a graph tell what is inside, and compare that node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.values import to_json
from pytest_sdperf.tasks import TaskContext

if TYPE_CHECKING:
    from pytest_sdperf.core.values.located import Located
    from pytest_sdperf.tracing.activations import ActivationIndex

_DRAWS = 3  # sets of random numbers that are tried in place of weights


def reveal(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Write a graph again with inner values as outputs.

    Args:
        arguments: `graph`: its path; `share`: every how many of them is one (1 for all).
        context: The task's context.

    Returns:
        `path` of the new graph, and how many inner `values` it tells.
    """
    import onnx_ir as ir

    from pytest_sdperf.fusing import node_types
    from pytest_sdperf.tracing.section import inner_values
    from pytest_sdperf.tracing.section import reveal as write

    source = Path(arguments["graph"])
    model = ir.load(source)
    node_types.record(model.graph)
    names = inner_values(model.graph)[:: arguments["share"]]
    return {"path": str(write(source, context.out_dir, names)), "values": len(names)}


def find(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Compare a build with its reference node by node, and write files that show the first wrong one.

    Args:
        arguments: `component`; `graph`: path of the build; `graphs`: paths of a graph in which nothing is fused, in
            float32 and in the type that is tested, or none, which compares with torch's modules; `inputs`: npz file;
            `obtained`: npz file with what an engine computed inside, or empty: then the graph alone is looked at;
            `expected` and `rough`: npz files with the outputs
            of torch in the reference type and in the type that is tested, with `inside.npz` beside them, or empty;
            `dtype`; `device`: torch device; `session`: how the engine makes a session, empty where nobody knows.
        context: The task's context.

    Returns:
        `located`: a `located.Located` as JSON, without its reproduction; `files`: folders with files that may show the
        fault, to be tried in this order, each with what its weights are.
    """
    from pytest_sdperf.core.values.located import Located
    from pytest_sdperf.tracing import reference, search
    from pytest_sdperf.tracing.dataflow import DataflowSearch

    dtype, device, component = arguments["dtype"], arguments["device"], arguments["component"]
    inputs = load_arrays(Path(arguments["inputs"]))
    obtained = load_arrays(Path(arguments["obtained"])) if arguments["obtained"] else {}
    context.say(f"comparing the {component} with its reference, node by node")
    activations = _activations(arguments, inputs)
    if isinstance(activations, Located):
        return {"located": to_json(activations), "files": []}
    graph = reference.load(Path(arguments["graph"])).graph
    whole = reference.wrong_by_definition(graph, activations, inputs, device=device)
    walk = DataflowSearch(
        graph, activations, inputs, wide=reference.wide_type(dtype), device=device, sharp=whole is not None
    )
    suspect = (
        search.wrong_in_graph(walk, obtained, dtype=dtype)
        or search.wrong_in_types(walk, obtained, dtype=dtype)
        or search.wrong_in_engine(walk, obtained, dtype=dtype, device=device)
    )
    suspect = search.wrong_as_a_whole(suspect, whole)
    files = list(_files(walk, suspect, obtained, arguments, context.out_dir))
    return {"located": to_json(search.located(suspect, component)), "files": files}


def _activations(arguments: Mapping[str, Any], inputs: Mapping[str, Any]) -> ActivationIndex | Located:
    """Return the values of a reference, or what is found before a build is looked at."""
    from pytest_sdperf.core.values.located import Located
    from pytest_sdperf.tracing import insides, reference

    how, component = {name: arguments[name] for name in ("dtype", "device")}, arguments["component"]
    of_torch = [Path(arguments[name]) for name in ("expected", "rough") if arguments[name]]
    if of_torch and (where := insides.plain_not_finite(*of_torch)) is not None:
        return Located(component, "plain", location=where)
    outputs = [load_arrays(path) for path in of_torch] or [{}, {}]
    if arguments["graphs"]:
        raw, plain = map(Path, arguments["graphs"])
        activations = reference.pool_of_graphs(raw, plain, inputs, **how)
        wrong = reference.wrong_reference(activations, *outputs, dtype=arguments["dtype"])
        if wrong is not None:
            return Located(component, "export", location=wrong)
        where = reference.plain_not_finite(activations)
        if where is None:
            return activations
        if not of_torch:
            return Located(component, "plain", location=where)
    # An attention of torch is finite where its parts, one by one, are not.
    inside = (load_arrays(path.parent / insides.FILE) for path in of_torch)
    return reference.pool_of_modules(*inside, *outputs, **how)


def _files(walk: Any, suspect: Any, obtained: Any, arguments: Mapping[str, Any], folder: Path) -> Iterator[Any]:
    """Write files that show a wrong node, those with random weights first."""
    from pytest_sdperf.tracing import reproduction

    how = {"dtype": arguments["dtype"], "device": arguments["device"]}
    if suspect.value is None or not arguments["session"] or suspect.kind not in ("graph", "types", "engine"):
        return
    real = reproduction.real(walk, suspect, obtained, **how)
    if real is None:
        return
    # What a wrong graph should give is known for the weights that it has alone.
    seeds = range(_DRAWS if suspect.kind == "engine" else 0)
    drawn = (reproduction.drawn(walk, suspect, real, seed=seed, **how) for seed in seeds)
    contents = [*(("random", one) for one in drawn if one is not None), ("real", real)]
    for number, (weights, content) in enumerate(contents):
        own = folder / f"{number}-{weights}"
        reproduction.write(own, Path(arguments["graph"]), suspect, content, arguments["session"])
        yield {"folder": str(own), "weights": weights, "limit": content["limit"]}
