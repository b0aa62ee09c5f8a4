"""The dynamo exporter without work that leaves no trace in the graph: 38 s instead of 134 s for a thin SDXL UNet.

Everything here reaches into torch and onnxscript. Where a version lacks a place that is named here, the export is
slower and otherwise the same; the tests compare the graphs.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_POPULATE = "_populate_param_buffer_metadata_to_new_gm"


@contextlib.contextmanager
def quick_export() -> Iterator[None]:
    """Make exports and optimizations of the graph quick inside."""
    places: Sequence[tuple[str, str, Callable[[Any], Any]]] = (
        # Paths of this machine, one stack per node; the export removes them from its result.
        ("torch.fx.config", "do_not_emit_stack_traces", lambda before: True),
        ("onnxscript.rewriter", "_DEFAULT_REWRITE_RULES", _quick_rules),
        ("onnx_ir.schemas.OpSignature", "from_op_schema", _remembered),
        ("torch.export.exported_program", _POPULATE, _with_listed_parameters),
        ("torch.export._trace", _POPULATE, _with_listed_parameters),
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(_collector_paused())
        lazily = _found("torch.fx._lazy_graph_module._use_lazy_graph_module")
        if lazily is not None:
            stack.enter_context(lazily(should_use=True))  # no Python source for graphs that nobody calls
        for owner, name, change in places:
            stack.enter_context(_replaced(_found(owner), name, change))
        yield


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Let no garbage be looked for: among millions of objects that are all in use it takes a fifth of the time."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _found(name: str) -> Any:
    """Return a module, or a class of a module; None if there is none of this name."""
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return None


@contextlib.contextmanager
def _replaced(owner: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Set an attribute to something made from what it was; do nothing where there is no such attribute."""
    if owner is None or name not in vars(owner):
        yield
        return
    before = vars(owner)[name]
    setattr(owner, name, change(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _quick_rules(rules: Sequence[Any]) -> Any:
    """Return the rewrite rules, each tried only at nodes of the type with which its pattern ends.

    The rule `SlicesSplit` is left out. It searches the whole graph for every node, which takes 84 of 110 seconds for
    SDXL, and never applies to these models: the counts are the same without it.
    """
    return tuple(_only_at_its_type(rule) for rule in rules if rule.name != "SlicesSplit")


def _only_at_its_type(rule: Any) -> Any:
    ends: Sequence[Any] = getattr(getattr(rule, "_target_pattern", None), "output_nodes", ())
    kind = ends[0].op_identifier() if len(ends) == 1 else None
    if kind is None:
        return rule  # any of several types
    quick, try_rewrite = copy.copy(rule), rule.try_rewrite

    def try_at(model: Any, graph: Any, node: Any, **options: Any) -> Any:
        return try_rewrite(model, graph, node, **options) if node.op_type == kind[1] else None

    quick.try_rewrite = try_at
    return quick


def _remembered(from_schema: Any) -> Any:
    """Return the class method that describes an operator for a schema, answering each schema once."""
    known: dict[tuple[str, str, int], Any] = {}

    def from_op_schema(cls: Any, schema: Any) -> Any:
        key = (schema.domain, schema.name, schema.since_version)
        if key not in known:
            known[key] = from_schema.__func__(cls, schema)
        return known[key]

    return classmethod(from_op_schema)


def _with_listed_parameters(populate: Callable[..., None]) -> Callable[..., None]:
    """Return a function that copies notes about parameters into a graph, making the list of parameters only once.

    It asks the signature of the graph for that list at every parameter, and the signature makes it anew each time.
    """
    from torch.export import ExportGraphSignature

    lists = ("inputs_to_parameters", "inputs_to_buffers")
    once = {name: functools.cached_property(vars(ExportGraphSignature)[name].fget) for name in lists}
    listed = type("ListedSignature", (ExportGraphSignature,), once)

    def populate_quickly(notes: Any, module: Any, signature: ExportGraphSignature) -> None:
        populate(notes, module, listed(signature.input_specs, signature.output_specs))

    return populate_quickly
