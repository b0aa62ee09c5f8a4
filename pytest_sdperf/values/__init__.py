"""Frozen values that travel between the rooms, and between the suite and its worker processes.

Standard library only: a worker imports this under an interpreter in which the suite is not installed. Every value
turns into plain JSON data with `dataclasses.asdict` and back with `from_json`.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pytest_sdperf.values.artifact import Artifact, Step
from pytest_sdperf.values.calibration import Calibration
from pytest_sdperf.values.floor import Floor
from pytest_sdperf.values.turn import Turn


@dataclasses.dataclass(frozen=True)
class Workload:
    """How much work one image request is.

    Attributes:
        batch_size: Images per request; a guided UNet call runs at twice this.
        height, width: Pixels; latents are an eighth of them.
        steps: Scheduler steps. UNet calls are counted, not derived from this (PNDM makes one more).
        scheduler: `pndm`, `ddim`, `euler` or `unipc`.
    """

    batch_size: int = 1
    height: int = 512
    width: int = 512
    steps: int = 50
    scheduler: str = "pndm"


@dataclasses.dataclass(frozen=True)
class Case:
    """The identity of what is measured: everything that makes two numbers incomparable when it differs.

    Attributes:
        model: Catalog name, such as `sd15-thin`.
        component: `unet`, `vae_decoder`, `text_encoder`, ... or `pipeline` for the whole request.
        engine: Engine name, or the name of the profile that runs it.
        engine_options: Options that differ from the engine's defaults, sorted by name.
        optimization: Canonical selection: the highest rung of a cumulative build (`fp16`), `fp16+fmha` or
            `all-fmha`.
        fuser: `native` or `ort`; empty where the engine compiles the torch module itself.
        exporter: `dynamo` or `torchscript`, or `given` for a graph that somebody else exported; empty likewise.
        opset: ONNX opset of the export; 0 likewise.
        shapes: `static` or `dynamic`; empty likewise.
        weights: Identity of the weights (`random-0`, `none`, a fingerprint of a folder, or a hub id with its commit),
            or of a given graph with its weights (`onnx-` and a hash of its files).
        fp32_ops: Operators that stay float32 in a float16 graph: `unet:MultiHeadAttention`, joined by commas.
        batch_size, height, width, steps, scheduler: See `Workload`; steps and scheduler are 0 and empty for a
            single component.
    """

    model: str
    component: str
    engine: str
    optimization: str
    engine_options: tuple[tuple[str, str], ...] = ()
    fuser: str = ""
    exporter: str = ""
    opset: int = 0
    shapes: str = ""
    weights: str = "random-0"
    fp32_ops: str = ""
    batch_size: int = 1
    height: int = 512
    width: int = 512
    steps: int = 0
    scheduler: str = ""

    @property
    def key(self) -> str:
        """The baseline key: every field, in field order, empty ones left out (`model=sd15 component=unet ...`)."""
        parts = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "engine_options":
                value = ",".join(f"{name}={setting}" for name, setting in value)
            if value not in ("", 0):
                parts.append(f"{field.name}={value}")
        return " ".join(parts)

    @property
    def workload(self) -> Workload:
        """The size of the work that this case does."""
        return Workload(self.batch_size, self.height, self.width, self.steps, self.scheduler)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        """Rebuild a case from `dataclasses.asdict` data that went through JSON."""
        options = tuple((str(name), str(setting)) for name, setting in data.get("engine_options", ()))
        return cls(**{**data, "engine_options": options})


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One input or output of a component.

    Attributes:
        name: Name in the ONNX graph.
        dtype: numpy dtype name; `float` stands for the floating type of the build (float16, float32, float64).
        shape: Concrete extents.
        axes: Names of the axes that a dynamic export leaves open (axis -> symbol).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    axes: Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Build:
    """What an engine loads for one component.

    Attributes:
        key: Content address: equal keys hold equal bytes.
        kind: `onnx` (a graph) or `module` (weights of a torch module).
        path: `model.onnx`, or the safetensors file.
        floating: Floating type of inputs and weights: `float32`, `float16`, `bfloat16` or `float64`.
        counts: `domain::op_type` -> nodes, subgraphs included; the domain of ONNX itself is empty. Empty for modules.
        graph_hash: Hash of the graph without its weights; empty for modules.
        size_bytes: Size on disk, external data included.
        steps: How it was made, with the times of when it was built (not when it came from the cache).
        notes: What the builder has to say: refusals of the optimizer, fallbacks.
        limits: Why the kernels of a CUDA GPU would throw on this graph, one sentence per kind of operator.
    """

    key: str
    kind: str
    path: Path
    floating: str
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    graph_hash: str = ""
    size_bytes: int = 0
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sample:
    """What one fresh worker process measured.

    Attributes:
        iterations_s: Device seconds of each timed, synchronized call after warm-up.
        load_s: Seconds to create the session or module.
        first_run_s, second_run_s: Seconds of the two runs before warm-up (compilation, algorithm search).
        first_run_bytes, second_run_bytes: Peak memory of those runs; None where the machine cannot tell.
        memory_source: What the peaks are: `host` (VmHWM), `device` (whole GPU, NVML or amdsmi), empty if None.
        peaks_bytes: Peak memory in every way that could tell it, way -> `first_run` or `second_run` -> bytes: `device`,
            `allocator` (what the engine's own allocator handed out) and `host`.
        warmup_runs: Calls made until the time was steady.
        unet_calls: UNet calls of one request; 0 for a single component.
        facts: What really ran: providers, threads, library versions.
    """

    iterations_s: tuple[float, ...]
    load_s: float = 0.0
    first_run_s: float = 0.0
    second_run_s: float = 0.0
    first_run_bytes: int | None = None
    second_run_bytes: int | None = None
    memory_source: str = ""
    peaks_bytes: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    warmup_runs: int = 0
    unet_calls: int = 0
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def median_s(self) -> float:
        """Median of the timed calls: the one number that a process contributes."""
        return statistics.median(self.iterations_s)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sample:
        """Rebuild a sample from JSON data."""
        return cls(**{**data, "iterations_s": tuple(float(value) for value in data["iterations_s"])})


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a worker gave no sample.

    Attributes:
        reason: `oom`, `crash`, `killed`, `timeout`, `stuck`, `protocol` or `error`; `refused` where the message says it
            all (something is missing or cannot be built), and there are no last words.
        message: One sentence.
        tail: The last lines of the worker's stderr.
    """

    reason: str
    message: str
    tail: str = ""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Raw samples of one case and how they were taken.

    Attributes:
        case: What was measured.
        samples: One per fresh process.
        failure: Set when a process ended without a sample; `reason == "oom"` is a value of its own.
        subject: Versions and settings of what is tested (onnxruntime, torch, threads, ...).
        graph_hashes: Component -> hash of the graph that ran.
        counts: Component -> `domain::op_type` -> nodes.
        artifacts: Component -> what was loaded: sizes, and what building took.
        health: Why the machine was not fit to be measured; empty when it was.
        remarks: What else is worth knowing about the machine (it ran at its power limit, ...).
        readings: State of the device `before`, `during` (while a first run kept it busy) and `after`: clocks,
            temperature, power, ...
        floor: How fast the device could do it at most; None where that is not known.
        calibration: What the device itself did in the same session; None if nobody measured it.
        turn: When it had its device to itself.
        taken_over: When an interrupted run measured it, in UTC to the minute; empty if this run did.
    """

    case: Case
    samples: tuple[Sample, ...]
    failure: Failure | None = None
    subject: Mapping[str, str] = dataclasses.field(default_factory=dict)
    graph_hashes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    health: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    readings: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    floor: Floor | None = None
    calibration: Calibration | None = None
    turn: Turn | None = None
    taken_over: str = ""

    @property
    def out_of_memory(self) -> bool:
        """Whether the device ran out of memory."""
        return self.failure is not None and self.failure.reason == "oom"

    @property
    def medians_s(self) -> tuple[float, ...]:
        """One median per process: the replicates of every statistic."""
        return tuple(sample.median_s for sample in self.samples)

    @property
    def latency_s(self) -> float:
        """Median of the process medians."""
        return statistics.median(self.medians_s)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """Rebuild a measurement from JSON data."""
        failure, floor, calibration, turn = (data.get(name) for name in ("failure", "floor", "calibration", "turn"))
        return cls(
            case=Case.from_json(data["case"]),
            samples=tuple(Sample.from_json(sample) for sample in data["samples"]),
            failure=Failure(**failure) if failure else None,
            subject=data.get("subject", {}),
            graph_hashes=data.get("graph_hashes", {}),
            counts=data.get("counts", {}),
            artifacts={name: Artifact.from_json(one) for name, one in data.get("artifacts", {}).items()},
            health=tuple(data.get("health", ())),
            remarks=tuple(data.get("remarks", ())),
            readings=data.get("readings", {}),
            floor=Floor(**floor) if floor else None,
            calibration=Calibration(**calibration) if calibration else None,
            turn=Turn(**turn) if turn else None,
            taken_over=data.get("taken_over", ""),
        )


def to_json(value: Any) -> Any:
    """Turn a frozen value, or a container of them, into plain JSON data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def finite(value: Any) -> Any:
    """Return JSON data in which numbers that are not finite, which JSON cannot hold, are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value
