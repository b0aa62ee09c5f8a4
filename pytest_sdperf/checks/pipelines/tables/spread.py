"""How far the processes of one case differ, where one number for all of them says too little."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.memory import PEAKS, beyond_least
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.units import digits, megabytes, plural, time_unit

_RUNS = {"first": "first-run-memory", "second": "second-run-memory"}


def peaks_of(report: CaseReport, metric: str) -> list[int]:
    """Return the peaks of the processes that could tell them, in bytes."""
    samples = report.measurement.samples if report.measurement is not None else ()
    return list(filter(None, PEAKS[metric].told(samples)))


def peaks_beyond(report: CaseReport, metric: str) -> list[int]:
    """Return the peaks that are above the least by more than counts as no change, in bytes."""
    if report.measurement is None or not report.measurement.samples:
        return []
    source = report.measurement.samples[0].memory_source
    return beyond_least(peaks_of(report, metric), source, policy=_policy(report))


def spread_of(report: CaseReport) -> str:
    """Say how far the processes of a case differ, in latency and memory; empty where it makes no difference.

    Latencies are told where they differ by more than the smallest change that may fail, for they would hide it.
    """
    return "; ".join([*_latencies(report), *_peaks(report)])


def _latencies(report: CaseReport) -> Iterator[str]:
    measurement = report.measurement
    if measurement is None or not all(sample.iterations_s for sample in measurement.samples):
        return
    medians = measurement.medians_s
    if medians and max(medians) > min(medians) * (1 + _policy(report).latency_effect):
        yield f"processes differ: {time_range(min(medians), max(medians))}"


def time_range(low_s: float, high_s: float) -> str:
    """Return two times in the unit of the larger one: `7.95 to 9.20 ms`."""
    scale, symbol = time_unit(high_s)
    return f"{digits(low_s / scale)} to {digits(high_s / scale)} {symbol}"


def _peaks(report: CaseReport) -> Iterator[str]:
    told = {}
    for run, metric in _RUNS.items():
        beyond, every = peaks_beyond(report, metric), peaks_of(report, metric)
        if beyond:
            of = plural(len(every), "process", "processes")
            told[run] = f"up to {megabytes(max(beyond))} in {len(beyond)} of {of}"
    if len(told) == len(_RUNS) and len({*told.values()}) == 1:
        yield f"both runs {told['first']}"
        return
    yield from (f"{run} run {text}" for run, text in told.items())


def _policy(report: CaseReport) -> Policy:
    return report.policy or Policy()
