"""Faults of work: slower, larger, refused, or done elsewhere than it should be."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from pytest_sdperf.core.contracts import ComponentFacts, Runner
from pytest_sdperf.faults.fault import Fault, FaultStage
from pytest_sdperf.faults.loaded import Calling, Telling, acting, before
from pytest_sdperf.faults.wanted import MEASURED, TEXT_ENCODER, TIMED, failed, invalid, regressed

KEPT_BYTES = 256 * 2**20
WAITS = 9.0  # times what the call took


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Make a call longer by a share of itself, busily."""
    start_s = time.perf_counter()
    yield
    end_s = time.perf_counter()
    while time.perf_counter() - end_s < WAITS * (end_s - start_s):
        pass


class Keeping:
    """Keeps memory from the second call on, once: a test that kept it at every call would fill the machine."""

    def __init__(self) -> None:
        self._calls, self._kept = 0, bytearray()

    def __call__(self) -> None:
        """Take memory and touch all of it."""
        self._calls += 1
        if self._calls == 2:
            self._kept = bytearray(b"\x01") * KEPT_BYTES


def run_out_of_memory() -> None:
    raise RuntimeError("Failed to allocate memory for requested buffer of size 85899345920")


def refuse_shape() -> None:
    raise ValueError("Non-zero status code returned while running Conv node")


def telling(told: ComponentFacts) -> Callable[[Runner], Runner]:
    """Return what changes the facts that a runner tells."""
    return lambda runner: Telling(runner, told)


def keeping(runner: Runner) -> Runner:
    own = Keeping()
    return Calling(runner, lambda: before(own))


FAULTS = (
    Fault(
        "runtime-ten-times-as-slow",
        "Every call takes ten times as long, as where a kernel is replaced by a loop.",
        FaultStage.RUNNER, lambda runner: Calling(runner, waiting),
        regressed(
            "latency-above-interval",
            "Text encoder latency # ms is # % above its baseline of # ms (held up to # ms ...)...",
        ),
        TEXT_ENCODER, TIMED, against_baseline=True,
    ),
    Fault(
        "runtime-memory-kept",
        "A call keeps 256 MB that it needed for the first run alone.",
        FaultStage.RUNNER, keeping,
        regressed(
            "memory-above-limit",
            "Text encoder second-run memory # MB is # % above its baseline of # MB (held up to # MB, 10 % of host "
            "memory).",
        ), TEXT_ENCODER, MEASURED, against_baseline=True,
    ),
    Fault(
        "runtime-out-of-memory",
        "A build that fitted into memory no longer does.",
        FaultStage.RUNNER, acting(run_out_of_memory),
        regressed(
            "oom-instead-of-number",
            "Text encoder latency is OOM: the device ran out of memory where its baseline took # ms; since then: ...",
        ), TEXT_ENCODER, MEASURED, against_baseline=True,
    ),
    Fault(
        "runtime-kernel-refuses",
        "A kernel throws at the first call.",
        FaultStage.RUNNER, acting(refuse_shape), invalid(
            "worker-error",
            "ValueError: Non-zero status code returned while running Conv node. Its last words: ... ValueError: "
            "Non-zero status code returned while running Conv node",
        ), TEXT_ENCODER, MEASURED,
    ),
    Fault(
        "runtime-node-on-the-cpu",
        "The session says that three nodes fell back to the CPU, as those of an opset without GPU kernels do.",
        FaultStage.RUNNER,
        telling({
            "providers": ["CUDAExecutionProvider"], "cpu_node_count": 3, "shape_node_count": 0, "memcpy_nodes": 0,
            "cpu_nodes": ["Attention attn1", "Pad pad_1", "Resize up_1"],
        }),
        failed(
            "cpu-nodes",
            "3 nodes of the text encoder graph run on the CPU: Attention attn1, Pad pad_1, Resize up_1; the CUDA "
            "provider has no kernel for them at their types, attributes or opset.",
        ), TEXT_ENCODER, MEASURED,
    ),
    Fault(
        "runtime-copies-between-devices",
        "The session says that it put four copies between CPU and GPU into the graph.",
        FaultStage.RUNNER,
        telling({
            "providers": ["CUDAExecutionProvider"], "cpu_node_count": 1, "shape_node_count": 1, "memcpy_nodes": 4,
            "cpu_nodes": ["Shape shape_1"],
        }),
        failed(
            "memcpy-nodes",
            "ONNX Runtime put 4 Memcpy nodes into the text encoder graph: values go back and forth between CPU and "
            "GPU in "
            "every call. On the CPU are Shape shape_1; static shapes need no such computation.",
        ), TEXT_ENCODER, MEASURED,
    ),
    Fault(
        "runtime-graph-not-replayed",
        "A CUDA graph was asked for, and the engine says that none is replayed.",
        FaultStage.RUNNER, telling({"cuda_graph": {"requested": True, "replayed": False}}),
        invalid(
            "graph-not-replayed",
            "A CUDA graph was asked for, but the text encoder replays none: its kernels are launched one by one.",
        ), TEXT_ENCODER, MEASURED,
    ),
    Fault(
        "runtime-compiled-again",
        "torch.compile says that it broke the graph and compiled it again while calls were timed.",
        FaultStage.RUNNER, telling({"compile": {"graphs": 2, "graph_breaks": 1, "recompiles": 3}}),
        failed(
            "compile-broken",
            "torch.compile made 2 graphs of the text encoder: 1 graph break, 3 recompilations in the timed calls.",
        ), TEXT_ENCODER, MEASURED,
    ),
)  # fmt: skip
