"""What was measured of a case: a sample of each fresh process, and what was seen beside them."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.core.values.artifact import Artifact
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.case import Case
from pytest_sdperf.core.values.facts import Facts, StoredFacts
from pytest_sdperf.core.values.floor import Floor
from pytest_sdperf.core.values.lock_wait import LockWait
from pytest_sdperf.core.values.metric import MetricInfo, Number
from pytest_sdperf.core.values.remark import Remark


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
        metrics: Metric of a plug-in -> its number, with words where it has some.
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
    facts: StoredFacts = dataclasses.field(default_factory=Facts)
    metrics: Mapping[str, Number] = dataclasses.field(default_factory=dict)

    @property
    def median_s(self) -> float:
        """Median of the timed calls: the one number that a process contributes."""
        return statistics.median(self.iterations_s)


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
        replaced: Samples of processes that others took the place of, because something else used the processors.
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
        floor_not_known: Why, as half a sentence; empty where it is known, and on a CPU, which has none.
        calibration: What the device itself did in the same session; None if nobody measured it.
        turn: When it had its device to itself.
        resumed: When an interrupted run measured it, in UTC to the minute; empty if this run did.
        answer: Digest of what a process answered that this run executed for a comparison; empty where there was none.
            What each timed process answered is in its facts.
        metrics: Metric of a plug-in -> how its numbers are judged.
    """

    case: Case
    samples: tuple[Sample, ...]
    failure: Failure | None = None
    subject: Mapping[str, str] = dataclasses.field(default_factory=dict)
    graph_hashes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    health: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    readings: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    floor: Floor | None = None
    floor_not_known: str = ""
    calibration: Calibration | None = None
    turn: LockWait | None = None
    resumed: str = ""
    replaced: tuple[Sample, ...] = ()
    answer: str = ""
    metrics: Mapping[str, MetricInfo] = dataclasses.field(default_factory=dict)

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

    @property
    def known_latency_s(self) -> float | None:
        """The same; None where a process timed nothing, or what no run can take."""
        times = [time for sample in self.samples for time in sample.iterations_s or (0.0,)]
        return self.latency_s if times and all(math.isfinite(time) and time > 0 for time in times) else None
