"""Whole terminal reports: `python tests/report/whole_reports.py` writes the files anew, to be looked at in a diff."""

from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from _pytest._io import TerminalWriter  # what pytest itself prints with

FOLDER = Path(__file__).resolve().parent.parent / "data" / "reports"
sys.path[:0] = [str(FOLDER.parent.parent)]

from sample_values import case, compared, failed, fused, measurement, session, stored  # noqa: E402 - the path comes first

from pytest_sdperf.checks.judging.policy import Policy  # noqa: E402
from pytest_sdperf.checks.judging.verdict import judge  # noqa: E402
from pytest_sdperf.checks.reporting.case_report import CaseReport  # noqa: E402
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict  # noqa: E402
from pytest_sdperf.report.run_info import RunInfo  # noqa: E402
from pytest_sdperf.report.terminal import report_lines  # noqa: E402

# Each optimization of the ladder -> milliseconds of a UNet call by torch and by onnxruntime, and operators to fuse.
LADDER = {
    "fp32": (92.0, 81.0, 0),
    "fp16": (28.0, 20.0, 0),
    "fmha": (28.0, 12.3, 32),
    "nhwc-conv": (28.0, 11.7, 130),
    "group-norm": (28.0, 10.9, 191),
    "bias-split-gelu": (28.0, 10.5, 207),
    "packed-qkv": (28.0, 10.4, 207),
    "bias-add": (28.0, 10.1, 223),
}
RUN = RunInfo(
    "NVIDIA H200",
    "h200",
    "h200",
    machine={"driver": "580.159.04", "power_limit_w": 700, "pool": "default", "partition": "whole"},
    engines={"torch": {"torch": "2.13.0"}, "ort-cuda": {"onnxruntime": "1.31.1"}},
    baselines="baselines/h200.json",
    baseline_cases=46,
    compared=46,
    baseline_date="2026-11-20T10:00Z",
    sessions=3,
    command="pytest suites --gpu=h200 --engine=torch,ort-cuda --optimization=all --batch-size=1,4",
)
EAGER = {"engine": "torch", "fuser": "", "exporter": "", "opset": 0, "shapes": ""}
FULL = {"model": "sd15", "height": 512, "width": 512, "engine": "ort-cuda", "fuser": "native"}


def timed(of, ms: float, *, before: float | None) -> CaseReport:
    """Return one measured case; `before` is what its baseline took."""
    calls = 51 if of.component == "pipeline" else 0
    facts = {"source": "device", "first": 4400, "second": 4400, "calls": calls}
    measured = measurement(ms, ms, ms, case=of, **facts)
    known = stored(*(session(before, before, before, **facts) for _ in range(3)), of=of) if before else None
    name = f"suites/test_pipelines.py::test_latency[{of.component}-{of.engine}-{of.optimization}-b{of.batch_size}]"
    return CaseReport(name, of, measured, judge(measured, known, policy=Policy()))


def ladder(*, slower: float = 1.0, judged: bool = True) -> Iterator[CaseReport]:
    """Yield the ladder of two engines at two batch sizes: module and whole request, then fused operators and agreement.

    Args:
        slower: Factor of every time, against the baseline.
        judged: Whether there is a baseline.
    """
    for component, calls in (("unet", 1.0), ("pipeline", 52.0)):
        for name, (eager, compiled, _) in LADDER.items():
            for batch in (1, 4):
                for engine, ms in (("torch", eager), ("ort-cuda", compiled)):
                    if engine == "torch" and name not in ("fp32", "fp16"):
                        continue
                    module = EAGER if engine == "torch" else {}
                    steps = {"steps": 50, "scheduler": "pndm"} if component == "pipeline" else {}
                    of = case(**{**FULL, **module, **steps}, component=component, optimization=name, batch_size=batch)
                    whole = ms * calls * (0.3 + 0.7 * batch)
                    yield timed(of, whole * slower, before=whole if judged else None)
    for name, (_, _, operators) in LADDER.items():
        of = case(**{**FULL, "engine": ""}, optimization=name)
        right = Verdict(Outcome.PASSED, "as-derived", "The unet graph has every operator.", "fusions")
        counted = {"com.microsoft::MultiHeadAttention": operators}
        yield CaseReport(f"suites/test_fusions.py::test_{name}", of, verdicts=(right,), checks=fused(counted, counted))
        error = Agreement("component", "relative-l2", 1.57e-3, 1.75e-3, 3.5e-3, "float16", "float32", "sample[0,3,1,2]")
        yield compared(f"suites/test_agreement.py::test_unet[{name}]", case(**FULL, optimization=name), error)


def many_findings() -> Iterator[CaseReport]:
    """Yield a run in which nearly everything is slower, a worker crashed, and a build failed for many tests alike."""
    yield from ladder(slower=1.31)
    crashed = case(**FULL, optimization="fmha", batch_size=8)
    measured = failed("crash", "the worker ended with signal 11", "Segmentation fault", case=crashed)
    yield CaseReport(
        "suites/test_pipelines.py::test_latency[b8]", crashed, measured, judge(measured, None, policy=Policy())
    )
    broken = Verdict(Outcome.INVALID, "build-failed", "The graph cannot be exported: no kernel for it.", "fusions")
    for name in LADDER:
        of = case(**{**FULL, "engine": "", "component": "vae_decoder"}, optimization=name)
        yield CaseReport(f"suites/test_fusions.py::test_vae_decoder[{name}]", of, verdicts=(broken,))


SCENES = {
    "in-order": (list(ladder()), RUN),
    "first-run": (list(ladder(judged=False)), dataclasses.replace(RUN, baseline_cases=0, compared=0, baseline_date="")),
    "many-findings": (list(many_findings()), RUN),
}
# Name of a file -> scene, columns, verbosity, colours.
FILES = {
    **{f"{scene}-{width}": (scene, width, 0, False) for scene in SCENES for width in (80, 60)},
    **{f"{scene}-80-quiet": (scene, 80, -1, False) for scene in SCENES},
    "in-order-80-verbose": ("in-order", 80, 1, False),
    **{f"{scene}-80-colours": (scene, 80, 0, True) for scene in ("in-order", "many-findings")},
}


def printed(scene: str, width: int, verbosity: int, colours: bool) -> str:
    """Return what a terminal, or a pipe, is sent."""
    reports, run = SCENES[scene]
    file = io.StringIO()
    writer = TerminalWriter(file)
    writer.hasmarkup = colours
    for line in report_lines(reports, run, width=width, verbosity=verbosity):
        writer.line(line.text, **line.markup)
    return file.getvalue()


if __name__ == "__main__":
    for name, what in FILES.items():
        (FOLDER / f"{name}.txt").write_text(printed(*what), encoding="utf-8")
