"""The list of our metrics, and what a plug-in's take from a sample.

Whoever judges, stores levels and reports has the names from here, not from a catalog: `sdperf gate` has none.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.checks.pipelines.judging import artifacts, runtime_report
from pytest_sdperf.checks.pipelines.judging.answers import Answers
from pytest_sdperf.checks.pipelines.judging.energy import Energy
from pytest_sdperf.checks.pipelines.judging.host_waits import HostWaits
from pytest_sdperf.checks.pipelines.judging.kernels import Kernels
from pytest_sdperf.checks.pipelines.judging.latency import LATENCY
from pytest_sdperf.checks.pipelines.judging.memory import PEAKS
from pytest_sdperf.checks.pipelines.judging.our_metric import OfPlugIn, OurMetric
from pytest_sdperf.checks.pipelines.judging.partitions import Parts
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.metric import Number, Reading

# In the order of their verdicts; those of plug-ins come after them.
_METRICS: tuple[OurMetric, ...] = (
    LATENCY,
    *PEAKS.values(),
    *runtime_report.METRICS,
    Answers(),
    artifacts.BuildTime(),
    artifacts.WarmStart(),
    artifacts.ArtifactSize(),
    Kernels(),
    Parts(),
    HostWaits(),
    Energy(),
)
OURS: Mapping[str, OurMetric] = {metric.name: metric for metric in _METRICS}


def metrics_of(measurement: Measurement) -> tuple[OurMetric, ...]:
    """Return what a measurement is judged by: our metrics, and those of plug-ins that it was measured with."""
    every = (*OURS.values(), *(OfPlugIn(name, info) for name, info in measurement.metrics.items()))
    return tuple(one for one in every if one.of_failures or not measurement.out_of_memory)


def with_metrics(sample: Sample, catalog: Catalog) -> Sample:
    """Return a sample with the number that each registered metric takes from it.

    Raises:
        WorkerError: A metric raised, or gave no finite number.
    """
    found: dict[str, Number] = {}
    for name, metric in catalog.metrics.items().items():
        where = f"the metric {name!r} of {catalog.metrics.owner(name).module}"
        try:
            value: Any = metric.extract(sample)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise WorkerError(
                f"{where} cannot read a sample: {what}. Correct its `extract`.", reason="error"
            ) from error
        if value is None:
            continue
        told, words = (value.value, value.words) if isinstance(value, Reading) else (value, "")
        number = isinstance(told, (int, float)) and not isinstance(told, bool) and math.isfinite(told)
        if not number or not isinstance(words, str):
            raise WorkerError(
                f"{where} gave {value!r}. Allowed: a finite number, or None where a process has none.", reason="error"
            )
        found[name] = Reading(float(told), words) if isinstance(value, Reading) else float(told)
    return dataclasses.replace(sample, metrics=found)
