"""Runs of a self-test whose noise is known."""

from __future__ import annotations

import itertools
import math
import random

from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.selftest.noise import ModelNoise
from pytest_sdperf.plugin.selftest.records import SelfTestRun, SelfTests, key_of
from pytest_sdperf.plugin.selftest.rows import rows_of
from pytest_sdperf.plugin.selftest.schedule import slowdowns

GPU_CASE = Case("sd15", "unet", "ort-cuda", "bias-add")
CPU_CASE = Case("sd15-thin", "unet", "ort-cpu", "fp16", height=128, width=128)
QUIET = ModelNoise(day=0.002, process=0.003, drift=0.003, bad=0.0)


def drawn_run(noise=QUIET, *, count=60, seed=1, on_cpu=False, slower=0.0, injected=1.0, date=None, **fields):
    """Draw a run; `slower` moves every time, `injected` is the part of each slowdown that was really obtained."""
    draw = random.Random(seed)
    medians: dict[float, list] = {}
    obtained: dict[float, list] = {}
    for number, time in enumerate(itertools.islice(noise.session(draw), count)):
        asked = slowdowns(number, on_cpu=on_cpu)
        for share in asked:
            medians.setdefault(share, [None] * count)[number] = time * (1 + slower) * (1 + injected * share)
            if share:
                obtained.setdefault(share, [None] * count)[number] = injected * share
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


def logs(values):
    return [math.log(value) for value in values]
