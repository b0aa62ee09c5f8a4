"""Results with everything that a page shows, in any number of cases: the shipped sessions of an H200, varied."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from sample_values import case, compared, fused  # noqa: E402 - the path comes first

from pytest_sdperf.acceptance.sessions import measurement_of  # noqa: E402
from pytest_sdperf.baselines.shipped import measured  # noqa: E402
from pytest_sdperf.baselines.stored import Baseline, StoredCase  # noqa: E402
from pytest_sdperf.checks.judging.policy import Policy  # noqa: E402
from pytest_sdperf.checks.judging.verdict import judge  # noqa: E402
from pytest_sdperf.checks.reporting.case_report import CaseReport  # noqa: E402
from pytest_sdperf.core.values.floor import Floor  # noqa: E402
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, StepAgreement, Verdict  # noqa: E402
from pytest_sdperf.fusing.optimizations import LADDER  # noqa: E402
from pytest_sdperf.report.results import SavedResults  # noqa: E402
from pytest_sdperf.report.run_info import RunInfo  # noqa: E402
from pytest_sdperf.report.run_summary import RunSummary  # noqa: E402

RUN = RunInfo(
    "NVIDIA H200",
    "h200",
    "h200",
    machine={"driver": "580.159.04", "power_limit_w": 700},
    engines={"ort-cuda": {"onnxruntime": "1.32.0"}},
    baselines="baselines/h200.json",
    baseline_cases=33,
    baseline_date="2026-11-29T06:31Z",
    compared=33,
    sessions=1,
    changes=("onnxruntime 1.31.1 -> 1.32.0",),
    command="pytest suites --gpu=h200 --engine=ort-cuda,torch --model=sd15 --optimization=ladder",
)


@functools.cache
def shipped() -> Baseline:
    """Return the baseline of the H200 that comes with the project."""
    (baseline,) = (one for one in measured() if one.machine["slug"] == "h200")
    return baseline


def timed(stored: StoredCase, factor: float, **fields: Any) -> CaseReport:
    """Return a case that takes so many times as long as it is stored, judged; `fields` make another case of it."""
    of = dataclasses.replace(stored.case, **fields)
    last = measurement_of(stored.last, of)
    samples = tuple(
        dataclasses.replace(one, iterations_s=tuple(time * factor for time in one.iterations_s)) for one in last.samples
    )
    floor = Floor(8e11, 1e11, 1.7e9, samples[0].median_s * 0.4 / factor, "measured") if samples else None
    measurement = dataclasses.replace(last, samples=samples, floor=floor)
    known = stored if of == stored.case else None
    verdicts = judge(measurement, known, policy=Policy())
    name = f"suites/test_pipelines.py::test_latency[{of.model}-{of.component}-{of.optimization}-b{of.batch_size}]"
    return CaseReport(name, of, measurement, verdicts, policy=Policy())


def of_checks() -> Iterator[CaseReport]:
    """Yield fused operators, of which one lacks, and agreements step by step, of which one is beyond its limit."""
    full = {"model": "sd15", "height": 512, "width": 512, "fuser": "native"}
    for place, optimization in enumerate(LADDER):
        expected = {"com.microsoft::MultiHeadAttention": 32, "com.microsoft::NhwcConv": 98}
        expected = {name: nodes if place > 1 else 0 for name, nodes in expected.items()}
        lacks = optimization.name == "group-norm"
        counts = {name: nodes - lacks for name, nodes in expected.items()}
        verdict = Verdict(Outcome.PASSED, "as-derived", "The unet graph has every operator.", "fusions")
        if lacks:
            why = "MultiHeadAttention at mid_block.attentions.0: the mask has no constant shape (Add node_17)"
            told = "The unet graph lacks operators: MultiHeadAttention 31 of 32."
            verdict = Verdict(Outcome.FAILED, "operators-missing", told, "fusions", details=(why,))
        of = case(**full, engine="", optimization=optimization.name)
        checks = fused(counts, expected)
        yield CaseReport(f"suites/test_fusions.py::test_{optimization.name}", of, verdicts=(verdict,), checks=checks)
    for name, beyond in (("fmha", False), ("bias-add", True)):
        steps = tuple(
            StepAgreement(1e-4 * number * (4 if beyond and number > 30 else 1), 0.9e-4 * number, 1.8e-4 * number)
            for number in range(1, 51)
        )
        shown = steps[30] if beyond else steps[20]
        where = "step 31 of 50" if beyond else "step 21 of 50"
        one = Agreement(
            "steps", "relative-l2", shown.error, shown.reference_error, shown.limit, "float16", "float32", where,
            steps=steps,
        )  # fmt: skip
        of = case(**full, component="pipeline", engine="ort-cuda", optimization=name, steps=50, scheduler="pndm")
        yield compared(f"suites/test_agreement.py::test_request[{name}]", of, one)


def results(count: int, *, factor: float = 1.0, date: str = "2026-11-30T10:00Z") -> SavedResults:
    """Return results of so many measured cases; of the second, third, ... the time is `factor` times as long."""
    stored = sorted(shipped().cases.values(), key=lambda one: one.case.component != "unet")
    reports = []
    for number in range(count):
        one, again = stored[number % len(stored)], number // len(stored)
        fields = {"batch_size": one.case.batch_size * 2**again} if again else {}
        fields |= {"model": f"model-{again}"} if again > 2 else {}
        reports.append(timed(one, factor if number % 3 == 1 else 1.0, **fields))
    reports += of_checks() if count > 4 else ()
    summary = RunSummary(selected=count, measured=True, collected=tuple(report.case for report in reports))
    return SavedResults(date=date, run=RUN, summary=summary, policy=Policy(), settings={}, reports=tuple(reports))
