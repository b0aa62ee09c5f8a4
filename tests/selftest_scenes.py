"""Runs of a self-test whose noise is known."""

from __future__ import annotations

import dataclasses
import math
import random

from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.selftest.records import SelfTestRun, SelfTests, key_of
from pytest_sdperf.plugin.selftest.rows import rows_of, slowdowns

GPU_CASE = Case("sd15", "unet", "ort-cuda", "bias-add")
CPU_CASE = Case("sd15-thin", "unet", "ort-cpu", "fp16", height=128, width=128)


@dataclasses.dataclass(frozen=True)
class Noise:
    """Standard deviations of the logarithm of a time: of a run, and of a process in it."""

    day: float = 0.0
    process: float = 0.0

    def times(self, draw, count):
        level = draw.gauss(0, self.day)
        return [0.02 * math.exp(level + draw.gauss(0, self.process)) for _ in range(count)]


QUIET = Noise(day=0.002, process=0.003)


def drawn_run(noise=QUIET, *, count=60, seed=1, on_cpu=False, slower=0.0, injected=1.0, date=None, **fields):
    """Draw a run; `slower` moves every time, `injected` is the part of each slowdown that was really obtained."""
    medians: dict[float, list] = {}
    obtained: dict[float, list] = {}
    for number, time in enumerate(noise.times(random.Random(seed), count)):
        for share in slowdowns(number, on_cpu=on_cpu):
            medians.setdefault(share, []).append(time * (1 + slower) * (1 + injected * share))
            if share:
                obtained.setdefault(share, []).append(injected * share)
    return SelfTestRun(
        date=date or f"2026-11-{seed:02}T10:00Z",
        suite="0.1.0",
        subject={"onnxruntime": "1.32.0"},
        medians_s={key_of(share): tuple(values) for share, values in sorted(medians.items())},
        obtained={key_of(share): tuple(values) for share, values in sorted(obtained.items())},
        **fields,
    )


def drawn_case(*runs, case=GPU_CASE, policy=None):
    tested = SelfTests(case=case, runs=runs)
    return SelfTests(case=case, runs=runs, rows=rows_of(tested, policy=policy)) if policy else tested
