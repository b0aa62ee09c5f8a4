"""torch.compile with Inductor."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_sdperf.core.contracts import ComponentFacts, EngineOption, LoadRequest, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.engines import _torch

if TYPE_CHECKING:
    import torch

# Mode -> the one that does the same without CUDA graphs.
WITH_CUDA_GRAPHS = {"reduce-overhead": "default", "max-autotune": "max-autotune-no-cudagraphs"}
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_LONGEST_REASON = 300


class TorchCompileEngine(_torch.ModuleEngine):
    """The torch module through `torch.compile`, with what Inductor compiled for the case before.

    The first run still traces the module and loads what was compiled: that is part of its seconds.
    """

    name = "torch-compile"
    compiles = True
    resizes = True
    options = {
        "mode": EngineOption("default", "Mode of torch.compile.", choices=MODES),
        "fullgraph": EngineOption("on", "Refuse graph breaks.", choices=("on", "off")),
        "dynamic": EngineOption(
            "auto",
            "Shapes of a compiled graph: open from the second size on, or from the first.",
            choices=("auto", "on"),
        ),
        "channels_last": _torch.CHANNELS_LAST,
        "tf32": _torch.TF32,
    }

    def refuses_options(self, options: Mapping[str, str], device_kind: DeviceKind) -> str | None:
        """Refuse CUDA graphs on a CPU, where torch would do without and say nothing."""
        mode = options["mode"]
        if device_kind == "cpu" and mode in WITH_CUDA_GRAPHS:
            return f"mode={mode} makes CUDA graphs, which a CPU has not; type {self.name}:mode={WITH_CUDA_GRAPHS[mode]}"
        return None

    def versions(self) -> dict[str, str]:
        """Return the versions of torch, diffusers and Triton, which is there where GPUs are."""
        found = super().versions()
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found["triton"] = importlib.metadata.version("triton")
        return found

    @contextlib.contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Load the module and wrap it; the first call compiles."""
        import torch

        compiled = torch.compile(_torch.load_module(request), **_arguments(request.options))
        with contextlib.ExitStack() as stack:
            if request.options["dynamic"] == "on":
                stack.enter_context(_every_side_open())
            stack.enter_context(_torch.inductor_cache(request))
            # Whatever runs next in this process, as in a debugger, begins anew.
            stack.callback(torch.compiler.reset)
            yield CompiledRunner(compiled, request, skips=stack.enter_context(_skips_logged()))


def _arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `torch.compile` that options stand for."""
    return {
        "mode": options["mode"],
        "fullgraph": options["fullgraph"] == "on",
        "dynamic": True if options["dynamic"] == "on" else None,
    }


def _every_side_open() -> contextlib.AbstractContextManager[None]:
    """Let sides that are equal in the first call differ later: torch takes them for one otherwise, and compiles again.

    The first call of most users draws a square.
    """
    config: Any = importlib.import_module("torch.fx.experimental._config")
    patched: contextlib.AbstractContextManager[None] = config.patch(use_duck_shape=False)
    return patched


@contextlib.contextmanager
def _skips_logged() -> Iterator[list[str]]:
    """Collect why Inductor did without CUDA graphs: it counts these, and only logs the reasons."""
    from torch._inductor.cudagraph_utils import cudagraphs_log

    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    collector = Collector(logging.WARNING)
    cudagraphs_log.addHandler(collector)
    try:
        yield found
    finally:
        cudagraphs_log.removeHandler(collector)


class Counts(NamedTuple):
    """What the compiler has done in this process.

    Attributes:
        graphs: Graphs that were compiled.
        breaks: Places where it gave up and began another graph.
        skips: Graphs that were to be CUDA graphs and are not.
        hits, misses: Graphs that were in the cache, and that were not.
    """

    graphs: int = 0
    breaks: int = 0
    skips: int = 0
    hits: int = 0
    misses: int = 0

    @classmethod
    def now(cls) -> Counts:
        """Read torch's counters."""
        from torch._dynamo.utils import counters

        inductor = counters["inductor"]
        return cls(
            counters["stats"]["unique_graphs"],
            sum(counters["graph_break"].values()),
            inductor["cudagraph_skips"],
            inductor["fxgraph_cache_hit"],
            inductor["fxgraph_cache_miss"],
        )

    def plus(self, before: Counts, after: Counts) -> Counts:
        """Add what happened between two readings."""
        return Counts(*(mine + new - old for mine, old, new in zip(self, before, after, strict=True)))


class CompiledRunner(_torch.TorchRunner):
    """Calls a compiled module, and counts what the compiler does in these calls and in no other component's."""

    def __init__(
        self, module: Callable[..., Sequence[torch.Tensor]], request: LoadRequest, *, skips: Sequence[str]
    ) -> None:
        """Take a compiled module.

        Args:
            module: It has not been called yet.
            request: What it was loaded for.
            skips: Grows by a reason whenever Inductor does without CUDA graphs.
        """
        super().__init__(module, request, clone_outputs=True)
        self._skips = skips
        self._counts = Counts()
        self._recompiles = 0

    def enter(self, phase: str) -> None:
        """Begin to count what is compiled in the timed calls."""
        if phase == "timed":
            self._recompiles -= self._counts.graphs

    def leave(self, phase: str) -> None:
        """End that count: what looks at the component later may compile."""
        if phase == "timed":
            self._recompiles += self._counts.graphs

    def compute(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Start one call; the first one compiles."""
        before = Counts.now()
        outputs = super().compute(inputs)
        after = Counts.now()
        if after != before:
            self._counts = self._counts.plus(before, after)
        return outputs

    @contextlib.contextmanager
    def inside(self, *, blocks: bool = False) -> Iterator[dict[str, Any]]:
        """Collect nothing: what is compiled as one has no modules inside that could be asked."""
        yield {}

    def recipe(self) -> ModuleRecipe:
        """Return how it is compiled, too."""
        return dataclasses.replace(super().recipe(), compile=_arguments(self._request.options))

    def facts(self) -> ComponentFacts:
        """Return what the compiler did, whether it found it in its cache, and whether CUDA graphs are replayed."""
        counts = self._counts
        facts: ComponentFacts = {
            **super().facts(),
            "compile": {
                "graphs": counts.graphs,
                "graph_breaks": counts.breaks,
                "recompiles": self._recompiles,
                "cudagraph_skips": counts.skips,
                "reasons": [*self._breaks(), *dict.fromkeys(self._skips)],
            },
            "compile_cache": "warm" if counts.hits and not counts.misses else "cold",
        }
        if self._request.options["mode"] in WITH_CUDA_GRAPHS:
            facts["cuda_graph"] = {"requested": True, "replayed": self._replayed(), "changed_inputs": None}
        return facts

    def _breaks(self) -> list[str]:
        from torch._dynamo.utils import counters

        # One line each, without the stack that follows.
        found = [" ".join(reason.split())[:_LONGEST_REASON] for reason in counters["graph_break"]]
        return sorted(found) if self._counts.breaks else []

    def _replayed(self) -> bool:
        """Whether the last call replayed a recorded CUDA graph: it neither warmed up nor recorded one."""
        from torch._inductor.cudagraph_trees import ExecutionState, get_manager

        manager = get_manager(self._request.device_index, create_if_none_exists=False)
        return manager is not None and manager.path_state is ExecutionState.EXECUTION
