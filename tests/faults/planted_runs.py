"""Faults that are planted into whole runs, and what a run must say of one.

Suites, model, workers and engines are those that a newcomer gets: each run is the command that `sdperf faults` prints.
Faults of the UNet's fused graph take seconds each to build: `tests/fusing/test_planted_faults.py` finds all of them in
one process, and one of them stands for the others here.
"""

from __future__ import annotations

import re

import pytest

from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import REFUSED, UNUSED, Fault, FaultStage

STANDS_FOR_THE_UNET = "graph-query-and-key-exchanged"
QUICK = {
    "graph-causal-mask-lost", "weights-norms-reset", "numerics-one-percent-high", "runtime-error-swallowed",
    "runtime-answers-to-first-inputs", "environment-slowed-down-meanwhile", "harness-worker-aborts",
    "harness-baseline-of-zero",
}  # fmt: skip


def is_whole(fault: Fault) -> bool:
    """Whether a fault is planted into a whole run here."""
    return fault.place is not FaultStage.GRAPH or fault.component != "unet" or fault.name == STANDS_FOR_THE_UNET


WHOLE = tuple(filter(is_whole, known.FAULTS.values()))


def parameters(*suites: str) -> list[object]:
    """Return one parameter for each fault that these suites find."""
    return [
        pytest.param(fault, id=fault.name, marks=() if fault.name in QUICK else pytest.mark.slow)
        for fault in WHOLE
        if fault.found.by in suites
    ]


def healthy(*suites: str) -> list[object]:
    """Return one parameter for each command that faults of these suites have in common."""
    faults: dict[str, list[Fault]] = {}
    for fault in WHOLE:
        if fault.found.by in suites:
            faults.setdefault(f"{fault.found.by} {fault.options}", []).append(fault)
    return [
        pytest.param(alike[0], id=name, marks=() if QUICK & {one.name for one in alike} else pytest.mark.slow)
        for name, alike in faults.items()
    ]


def said(fault: Fault) -> re.Pattern[str]:
    """Return what the output must hold: the words of the fault, whole, with the verdict before and the code behind."""
    found = fault.found
    before = {UNUSED: "", REFUSED: "ERROR: "}.get(found.verdict, f"{found.verdict}: ")
    behind = rf"\s+\[{found.code}\]" if before.startswith(found.verdict) else ""
    return re.compile(rf"^{before}{found.pattern.pattern}{behind}$", re.MULTILINE | re.DOTALL)


def assert_found(fault, type_in):
    """Plant a fault into a run of its suite, which must say so and end as the fault requires."""
    result = type_in(fault.command)
    text = f"{result.stdout.str()}\n{result.stderr.str()}"
    assert said(fault).search(text)
    assert result.ret == fault.found.status
    if fault.found.verdict != REFUSED:
        assert f"\nsdperf: PLANTED {fault.name}: {fault.about}\n" in text
        code = f" [{fault.found.code}]" if fault.found.code else ""
        told = rf"PLANTED {fault.name}, and it was found( by \d+ tests?)?: {re.escape(fault.found.verdict + code)}\."
        assert re.search(told, " ".join(text.split()))


def assert_passes_without(fault, type_in):
    """Run the same command without the fault."""
    result = type_in(fault.command.rpartition(" --plant=")[0])
    assert result.ret == 0
    assert "PLANTED" not in result.stdout.str()
