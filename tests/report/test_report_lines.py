from __future__ import annotations

import dataclasses
import math
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_values import CASE, COUNTS, case, compared, failed, fused, known, measurement, session, stored, took, waited

from pytest_sdperf.baselines import published
from pytest_sdperf.baselines.sources import BaselineFiles, Source
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.tables.stored import told as stored_words
from pytest_sdperf.checks.pipelines.tables.tables import table_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.report import typed
from pytest_sdperf.report.findings import count_line, finding_lines
from pytest_sdperf.report.header import header_lines
from pytest_sdperf.report.next_command import next_lines
from pytest_sdperf.report.run_info import RunInfo, changes_of, sessions_of
from pytest_sdperf.report.terminal import report_lines

POLICY = Policy()
FULL = {"model": "sd15", "height": 512, "width": 512, "engine": "ort-cuda"}
WHOLE = {"component": "pipeline", "steps": 50, "scheduler": "pndm"}
MODULE = {"engine": "torch", "fuser": "", "exporter": "", "opset": 0, "shapes": ""}
FACTS: dict[str, Any] = {"source": "device", "first": 4400, "second": 4400}
AGREEMENT = Agreement("component", "relative-l2", 1.57e-3, 1.75e-3, 3.5e-3, "float16", "float32", "sample[0,3,1,2]")


def scene(of, before, now, *, agreements=()):
    """One test of a case: `before` and `now` are milliseconds, `oom`, `crash` or None."""
    calls = 51 if of.component == "pipeline" else 0
    counts = COUNTS if of.exporter and of.component == "unet" else {} if not of.exporter else {"unet": {"::Conv": 1}}
    if now == "oom":
        measured = failed("oom", "out of memory", case=of)
    elif now == "crash":
        measured = failed("crash", "the worker ended with signal 11", "cuDNN failure\nSegmentation fault", case=of)
    else:
        measured = measurement(now, now, now, case=of, counts=counts, calls=calls, **FACTS)
    known = None
    if before == "oom":
        known = stored(session(failure="oom"), of=of)
    elif before:
        known = stored(session(before, before, before, counts=counts, calls=calls, **FACTS), of=of)
    verdicts = judge(measured, known, policy=POLICY)
    name = f"suites/test_pipelines.py::test_latency[{of.component}-{of.engine}-{of.optimization}-b{of.batch_size}]"
    if agreements:
        return compared(name, of, *agreements, measurement=measured, verdicts=verdicts)
    return CaseReport(name, of, measured, verdicts)


REPORTS = [
    scene(case(**{**FULL, **MODULE}), 28, 28.1, agreements=(AGREEMENT,)),
    scene(case(**FULL), 20, 20.1),
    scene(case(**FULL, batch_size=8), 160, "oom"),
    scene(case(**FULL, optimization="fmha"), 12.3, 16.1),
    scene(case(**FULL, optimization="fmha", batch_size=8), 98, "crash"),
    scene(case(**FULL, **WHOLE, optimization="fmha"), 630, 500),
    scene(case(**FULL, **WHOLE, optimization="fmha", batch_size=8), None, 5000),
]
RUN = RunInfo(
    "NVIDIA GeForce RTX 3060",
    "rtx-3060-12gb",
    "rtx-3060",
    machine={"driver": "580.159.04", "power_limit_w": 170, "pool": "default", "partition": None},
    engines={"torch": {"torch": "2.13.0"}, "ort-cuda": {"onnxruntime": "1.32.0"}},
    baselines="baselines/rtx-3060-12gb.json",
    baseline_cases=6,
    compared=6,
    baseline_date="2026-11-20T10:00Z",
    sessions=1,
    command="pytest suites --gpu=rtx-3060 --engine=torch,ort-cuda --batch-size=1,8",
    changes=("onnxruntime 1.31.1 -> 1.32.0",),
)
FILES = published.load(published.folder())
LADDER = tuple(
    match
    for match in published.beside(FILES, family="rtx-3060", model="sd15", batch_sizes=[1, 8])
    if match.row.label == "Raw FP32 models" or (match.row.engine == "torch" and match.row.provider == "xformers")
)  # fmt: skip

TABLE_80 = """\
sd15: ort fuser, dynamo exporter, opset 18, static shapes, weights random-0
                                   latency  change   MB 1st   MB 2nd     verdict
unet, 512x512
  fp16 torch batch 1               28.1 ms  +0.4 %    4,400    4,400        HELD
  fp16 ort-cuda batch 1            20.1 ms  +0.5 %    4,400    4,400        HELD
  fp16 ort-cuda batch 8                OOM        !                    REGRESSED
  fmha ort-cuda batch 1            16.1 ms   +31 %!   4,400    4,400   REGRESSED
  fmha ort-cuda batch 8                  -                -        -     INVALID
pipeline, 512x512, 50 steps pndm
  fmha ort-cuda batch 1             500 ms   -21 %+   4,400    4,400    IMPROVED
  fmha ort-cuda batch 8             5.00 s            4,400    4,400         NEW
published, rtx-3060, 512x512, 50 steps
  fp32 onnxruntime batch 1          25.6 s                    10,667         [1]
  fp32 onnxruntime batch 8             OOM                                   [1]
  torch 1.13.1+cu117 xformers batch 1
                                    6.00 s            9,124    9,130         [2]
  torch 1.13.1+cu117 xformers batch 8
                                    41.1 s           10,825    9,255         [2]
  ! regressed; + improved; MB = 2^20 bytes on the whole device, peak of the
  first and the second run, the least of the processes
  [1] Stable Diffusion GPU Optimization (ONNX Runtime): Results on RTX 3060 GPU
  [2] Stable Diffusion GPU Optimization (ONNX Runtime): Results of RTX 3060
      (Windows 11)"""

TABLE_120 = """\
sd15: ort fuser, dynamo exporter, opset 18, static shapes, weights random-0
                            latency  change   MB 1st   MB 2nd     verdict
unet, 512x512
  fp16 torch batch 1        28.1 ms  +0.4 %    4,400    4,400        HELD
  fp16 ort-cuda batch 1     20.1 ms  +0.5 %    4,400    4,400        HELD
  fp16 ort-cuda batch 8         OOM        !                    REGRESSED
  fmha ort-cuda batch 1     16.1 ms   +31 %!   4,400    4,400   REGRESSED
  fmha ort-cuda batch 8           -                -        -     INVALID
pipeline, 512x512, 50 steps pndm
  fmha ort-cuda batch 1      500 ms   -21 %+   4,400    4,400    IMPROVED
  fmha ort-cuda batch 8      5.00 s            4,400    4,400         NEW
published, rtx-3060, 512x512, 50 steps
  fp32 onnxruntime batch 1   25.6 s                    10,667         [1]
  fp32 onnxruntime batch 8      OOM                                   [1]
  ! regressed; + improved; MB = 2^20 bytes on the whole device, peak of the first and the second run, the least of the
  processes
  [1] Stable Diffusion GPU Optimization (ONNX Runtime): Results on RTX 3060 GPU"""

REST_80 = """
agreement                  error     limit  of limit
  sd15 unet fp16 torch  1.57e-03  3.50e-03    44.9 %
  error: relative-l2 to the reference (float16 against float32); limit: 2 x the
  error of plain torch in the same type

REGRESSED suites/test_pipelines.py::test_latency[unet-ort-cuda-fp16-b8]
  UNet latency is OOM: the device ran out of memory where its baseline took 160
  ms. [oom-instead-of-number]
REGRESSED suites/test_pipelines.py::test_latency[unet-ort-cuda-fmha-b1]
  UNet latency 16.1 ms is 31 % above its baseline of 12.3 ms (held up to 12.5 ms
  by the spread of 6 processes; 1 stored session cannot show how days differ).
  [latency-above-interval]
INVALID suites/test_pipelines.py::test_latency[unet-ort-cuda-fmha-b8]
  The worker ended with signal 11. Its last words:
  cuDNN failure
  Segmentation fault [worker-crash]
IMPROVED suites/test_pipelines.py::test_latency[pipeline-ort-cuda-fmha-b1]
  Pipeline latency 500 ms is 21 % below its baseline of 630 ms (held down to 618
  ms by the spread of 6 processes; 1 stored session cannot show how days
  differ). [latency-below-interval]
NEW 1 case without a baseline; nothing was compared, and results are kept as
  candidates

next, measure what regressed again, alone:
pytest suites --gpu=rtx-3060 --engine=torch,ort-cuda --batch-size=1,8 --lf"""


def text(lines) -> str:
    return "\n".join(line.text for line in lines)


def test_a_table_in_80_columns():
    assert text(table_lines(REPORTS, LADDER, width=80)) == TABLE_80


def test_a_table_in_120_columns():
    assert text(table_lines(REPORTS, LADDER[:1], width=120)) == TABLE_120


def test_a_whole_report_in_80_columns():
    header = """\
verdicts of 7 cases: 2 REGRESSED, 1 INVALID, 1 NEW, 1 IMPROVED, 2 HELD
device     NVIDIA GeForce RTX 3060 (rtx-3060-12gb), driver 580.159.04, power
           limit 170 W
engines    ort-cuda: onnxruntime 1.32.0; torch: torch 2.13.0
baselines  baselines/rtx-3060-12gb.json: 6 cases, newest of 2026-11-20
changed    onnxruntime 1.31.1 -> 1.32.0
"""
    table = text(table_lines(REPORTS, width=80))
    assert text(report_lines(REPORTS, RUN, width=80, verbosity=1)) == f"{header}\n{table}\n{REST_80}"


def test_a_first_run_on_a_machine_says_so():
    run = dataclasses.replace(RUN, baseline_cases=0, baseline_date="", changes=(), machine={}, engines={})
    reports = [scene(case(**FULL), None, 20)]
    lines = text(report_lines(reports, run, width=80)).splitlines()
    assert lines[:3] == [
        "verdicts of 1 case: 1 NEW",
        "device     NVIDIA GeForce RTX 3060 (rtx-3060-12gb)",
        "baselines  baselines/rtx-3060-12gb.json: none yet",
    ]
    assert lines[-4:] == [
        "",
        "pytest -v adds memory, builds, agreement, fused operators, floors and kernels",
        "next, accept the result:",
        "sdperf baselines accept",
    ]


def test_a_run_that_needed_no_device_names_none():
    whole = Verdict(Outcome.PASSED, "as-derived", "The unet graph has every operator.", "fusions")
    reports = [CaseReport("t", case(engine=""), verdicts=(whole,))]
    lines = text(report_lines(reports, RunInfo("", "", command="pytest suites/test_fusions.py"), width=80)).splitlines()
    assert lines[:2] == ["verdicts of 1 case: 1 PASSED", ""]


def test_what_was_accepted_stands_before_the_next_command():
    lines = text(report_lines(REPORTS[:1], RUN, width=80, written=["~ key: 1 -> 2"])).splitlines()
    assert lines[lines.index("~ key: 1 -> 2") + 1 :][0] == ""


def test_accepted_results_are_no_candidates():
    run = dataclasses.replace(RUN, updating=True)
    lines = text(report_lines([scene(case(**FULL), None, 20)], run, width=80)).splitlines()
    assert "NEW 1 case without a baseline; nothing was compared" in lines


def test_the_header_of_a_cpu():
    run = RunInfo("AMD EPYC", "cpu-amd-epyc-2c", machine={"cores": 2, "memory_bytes": 10**10, "pool": "rack 7"})
    assert text(header_lines(run, width=80)) == (
        "device     AMD EPYC (cpu-amd-epyc-2c), 2 cores, pool rack 7\nbaselines  baselines: none yet"
    )


def test_the_header_of_a_whole_gpu_says_nothing_of_partitions():
    machine = {"driver": "580.159.04", "power_limit_w": 700.0, "partition": "whole", "pool": "default"}
    run = RunInfo("NVIDIA H200", "h200", machine=machine)
    assert text(header_lines(run, width=80)) == (
        "device     NVIDIA H200 (h200), driver 580.159.04, power limit 700 W\nbaselines  baselines: none yet"
    )
    part = RunInfo("NVIDIA H200", "h200", machine={**machine, "power_limit_w": 412.5, "partition": "1g.18gb"})
    assert text(header_lines(part, width=80)).splitlines()[:2] == [
        "device     NVIDIA H200 (h200), driver 580.159.04, power limit 412.5 W, partition",
        "           1g.18gb",
    ]


@pytest.mark.parametrize(
    ("measured", "lines"),
    [
        (case(**FULL), ["changed    onnxruntime 1.30.0 -> 1.31.1"]),
        (case(**FULL, opset=19), []),
        (None, []),
    ],
)
def test_what_changed_is_said_only_where_something_was_compared(measured, lines):
    of = case(**FULL)
    reports = [scene(measured, 20, 20)] if measured else [compared("t", of, AGREEMENT)]
    old = session(subject={"onnxruntime": "1.30.0"})
    known = Baseline(machine={}, cases={of.key: stored(old, of=of)})
    file = Path("baselines/h200.json")
    sources = BaselineFiles(file, (Source(file, known),))
    run = RunInfo("NVIDIA H200", "h200").against(sources, reports)
    assert [line for line in text(header_lines(run, width=80)).splitlines() if line.startswith("changed")] == lines


def test_every_number_of_a_published_row_is_shown():
    of = case(**{**FULL, **WHOLE, "model": "sd21", "steps": 20})
    matches = published.beside(FILES, family="rtx-3090", model="sd21", batch_sizes=[1])
    lines = text(table_lines([scene(of, None, 600)], matches[:2], width=80)).splitlines()
    assert [line.split() for line in lines if line.endswith("[1]")] == [
        ["PyTorch", "2.10", "s", "3,857", "[1]"],
        ["OneDiff", "nexfort", "1.35", "s", "3,643", "[1]"],
    ]
    assert lines[-4:] == [
        "  [1] Run SD2 with nexfort backend (Beta Release) (OneDiff): RTX3090, 768*768",
        "      PyTorch, batch 1: 10.4 iterations/s",
        "      OneDiff nexfort, batch 1: 15.9 iterations/s; iterations/s +52 %; latency",
        "        -36 %; warm-up 302 s with compilation; warm-up 113 s from a cache",
    ]


def test_a_published_change_is_a_line_of_text():
    matches = published.beside(FILES, family="quadro-rtx-8000", model="sd15", batch_sizes=[1])
    lines = text(table_lines([scene(case(**FULL, **WHOLE), None, 9000)], matches, width=120)).splitlines()
    assert lines[-2:] == [
        "  [1] Benchmarking Diffuser Models (Lambda): Latency, RTX 8000 (of sd1, which has the architecture of sd15)",
        "      half precision against single precision, batch 1: latency -52 %",
    ]
    assert not any(line.startswith("published") for line in lines)


def test_suspicious_images_keep_their_star():
    published_rows = published.beside(FILES, family="mi250x", model="sd15", batch_sizes=[8])
    raw = next(match for match in published_rows if match.row.label == "Raw FP32 models")
    lines = text(table_lines([scene(case(**FULL, **WHOLE, batch_size=8), None, 9000)], [raw], width=80))
    assert "  fp32 onnxruntime   36.4 s       *            33,787       [1]" in lines.splitlines()
    assert "  * suspicious images, says the source; MB = 2^20 bytes" in lines


def test_builds_that_differ_only_in_their_fuser_are_told_apart():
    lines = text(table_lines([scene(case(**FULL), 20, 20), scene(case(**FULL, fuser="native"), 19, 19)], width=80))
    assert lines.splitlines()[0] == "sd15: dynamo exporter, opset 18, static shapes, weights random-0"
    assert [line.partition(")")[0] for line in lines.splitlines()[3:5]] == [
        "  fp16 ort-cuda (ort",
        "  fp16 ort-cuda (native",
    ]


def test_a_label_that_is_too_long_has_its_own_line_and_stays_whole():
    options = (("cuda_graph", "on"), ("sdpa", "cudnn"))
    lines = text(table_lines([scene(case(**FULL, engine_options=options), 20, 20)], width=80)).splitlines()
    assert lines[3] == "  fp16 ort-cuda:cuda_graph=on,sdpa=cudnn"
    assert lines[4].split() == ["20.0", "ms", "0.0", "%", "4,400", "4,400", "HELD"]


def test_speed_of_a_build_that_disagrees_is_no_result():
    wrong = dataclasses.replace(AGREEMENT, error=4.1e-3, details={"psnr_db": 31.2})
    gate = compared("suites/test_agreement.py::test_unet", case(**FULL), wrong)
    reports = [scene(case(**FULL), 20, 20), scene(case(**FULL, **WHOLE), 20, 20), gate]
    short = text(report_lines(reports, RUN, width=80)).splitlines()
    assert [line for line in short if line.endswith("x")] == ["  fp16  20.0 ms 0.0 %x"] * 2
    lines = text(report_lines(reports, RUN, width=80, verbosity=1)).splitlines()
    assert sum(line.endswith("  FAILED") for line in lines) == 2
    assert "    FAILED: worst at sample[0,3,1,2]; psnr_db 31.2" in lines
    assert lines[0] == "verdicts of 2 cases: 1 FAILED, 1 HELD"
    assert lines[-2:] == ["next, look at what failed alone, before any time:", f"{RUN.command} --lf"]
    assert count_line(reports).styles == ("red", "bold")


def test_an_error_that_is_not_a_number_fails_and_has_no_share():
    wrong = dataclasses.replace(AGREEMENT, error=math.nan, culprit="")
    lines = text(report_lines([compared("t", case(**FULL), wrong)], RUN, width=80, verbosity=1)).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("agreement"))
    assert lines[start + 1 : start + 3] == [
        "  sd15 unet fp16 (ort) ort-cuda    nan  3.50e-03         -",
        "    FAILED: worst at a place that was not named",
    ]


def test_ink_follows_the_verdict():
    styles = {line.text.split()[-1]: line.styles for line in table_lines(REPORTS, width=80) if line.text}
    assert (styles["REGRESSED"], styles["INVALID"], styles["IMPROVED"], styles["HELD"], styles["NEW"]) == (
        ("red",), ("red",), ("green",), (), ())  # fmt: skip
    assert Line("x", ("red", "bold")).markup == {"red": True, "bold": True}


# -------------------------------------------------------------------------------------------- the next command


def test_what_was_not_timed_is_no_session_of_a_baseline():
    assert judged(Outcome.HELD, metric="fusion").startswith("next, keep these results in a file:")


def judged(*outcomes, metric="latency", measured=True, **run):
    of = measurement() if measured else None
    reports = [CaseReport("t", case(), of, verdicts=(Verdict(outcome, "c", "S.", metric),)) for outcome in outcomes]
    return text(next_lines(reports, dataclasses.replace(RUN, **{"command": "pytest suites", **run}), width=80))


@pytest.mark.parametrize(
    ("keeps", "why"), [(True, "see what is stored"), (False, "see what else these options collect")]
)
def test_what_was_accepted_of_a_check_is_shown_where_any_of_it_is_stored(keeps, why):
    counts = {"::Add": 1}
    passed = Verdict(Outcome.PASSED, "as-derived", "S.", "fusions")
    reports = [
        CaseReport("t", CASE, verdicts=(passed,), checks=fused(counts, counts, counted=counted))
        for counted in (None, known(counts) if keeps else None)
    ]
    run = RunInfo("", "", updating=True, command="pytest suites --sdperf-json=a.json")
    assert text(next_lines(reports, run, width=80)).startswith(f"next, {why}:")


@pytest.mark.parametrize("metric", ["fusions", "replay"])
def test_results_of_a_run_that_measured_nothing_cannot_be_judged_again(metric):
    run = {"command": "pytest suites --json=mine.json", "slug": "", "sessions": 3}
    assert judged(Outcome.HELD, metric=metric, measured=False, **run) == (
        "next, see what else these options collect:\npytest suites --json=mine.json --collect-only -q"
    )


@pytest.mark.parametrize(
    ("outcomes", "run", "lines"),
    [
        ((), {}, "next, see what these options collect:\npytest suites --collect-only -q"),
        ((Outcome.FAILED, Outcome.REGRESSED, Outcome.INVALID), {},
         "next, look at what failed alone, before any time:\npytest suites --lf"),
        ((Outcome.REGRESSED, Outcome.INVALID, Outcome.NEW), {},
         "next, measure what regressed again, alone:\npytest suites --lf"),
        ((Outcome.INVALID, Outcome.NEW), {},
         "next, measure what was invalid again, once its reason is gone:\npytest suites --lf"),
        ((Outcome.NEW, Outcome.IMPROVED, Outcome.HELD), {},
         "next, accept 2 results that are new or improved:\nsdperf baselines accept"),
        ((Outcome.NEW,), {"in_process": True, "command": "pytest suites -o sdperf_inprocess=true -x"},
         "next, measure in processes of their own:\npytest suites -x"),
        ((Outcome.NEW,), {"updating": True, "tracked": True},
         "next, review what was accepted:\ngit diff baselines/rtx-3060-12gb.json"),
        ((Outcome.NEW,), {"updating": True, "tracked": True, "baselines": "my cards/h200.json"},
         "next, review what was accepted:\ngit diff 'my cards/h200.json'"),
        ((Outcome.NEW,), {"updating": True},
         "next, see what is stored:\nsdperf baselines list --baselines=baselines"),
        ((Outcome.NEW,), {"updating": True, "baselines": "/tmp/my cards/h200.json"},
         "next, see what is stored:\nsdperf baselines list --baselines='/tmp/my cards'"),
        ((Outcome.NEW,), {"updating": True, "slug": "", "baselines": "b/fusions/onnxruntime-1.32.json"},
         "next, see what is stored:\npython -m json.tool b/fusions/onnxruntime-1.32.json"),
        ((Outcome.INCONCLUSIVE, Outcome.HELD), {},
         "next, measure with more processes, on a quieter machine:\npytest suites --sdperf-processes=10"),
        ((Outcome.HELD,), {},
         ("next, add this session to the baseline (2 more and it knows how days differ):\n"
         "sdperf baselines accept")),
        ((Outcome.HELD, Outcome.GAP), {"sessions": 3},
         "next, keep these results in a file:\npytest suites --sdperf-json=results.json"),
        ((Outcome.HELD,), {"sessions": 3, "command": "pytest suites --json=mine.json"},
         "next, judge these results again, on any machine:\nsdperf gate mine.json --gpu=rtx-3060-12gb"),
        ((Outcome.INCONCLUSIVE,), {"command": "pytest suites --sdperf-processes=4 -x"},
         "next, measure with more processes, on a quieter machine:\npytest suites -x --sdperf-processes=10"),
    ],
)  # fmt: skip
def test_the_next_command(outcomes, run, lines):
    assert judged(*outcomes, **run) == lines


GATES = ("latency", "second-run-memory", "counts", "kernels", "partitions", "build-time", "warm-start", "artifact-size")


@pytest.mark.parametrize("metric", GATES)
def test_an_improvement_of_any_metric_is_listed_with_the_command_that_accepts_it(metric):
    improved, gap = (Verdict(outcome, "c", "S.", metric) for outcome in (Outcome.IMPROVED, Outcome.GAP))
    reports = [CaseReport("t", case(), measurement(), verdicts=(improved, gap))]
    assert text(finding_lines(reports, width=80, every=True)) == "GAP t\n  S. [c]\nIMPROVED t\n  S. [c]"
    lines = next_lines(reports, dataclasses.replace(RUN, command="pytest suites"), width=80)
    assert text(lines) == "next, accept the result:\nsdperf baselines accept"


def test_where_only_a_build_waited_the_next_run_finds_it_built():
    verdict = Verdict(Outcome.INCONCLUSIVE, "build-waited", "S.", "build-time")
    lines = next_lines([CaseReport("t", case(), verdicts=(verdict,))], RUN, width=80)
    assert text(lines) == f"next, measure with what is built now, whose time is not judged again:\n{RUN.command}"


def test_the_next_command_where_a_test_failed_before_anything_was_judged():
    lines = next_lines([CaseReport("t", case(), problem="the disk is full")], RUN, width=80)
    assert text(lines) == f"next, run what failed again, once its reason is gone:\n{RUN.command} --lf"


@pytest.mark.parametrize("outcome", [Outcome.HELD, Outcome.NEW, Outcome.GAP, Outcome.IMPROVED, Outcome.INCONCLUSIVE])
def test_a_test_that_failed_comes_before_whatever_else_could_be_done(outcome):
    reports = [
        CaseReport("t", case(), problem="the graph is refused"),
        CaseReport("u", case(), verdicts=(Verdict(outcome, "c", "S.", "latency"),)),
    ]
    lines = next_lines(reports, RUN, width=80)
    assert text(lines) == f"next, run what failed again, once its reason is gone:\n{RUN.command} --lf"


def test_an_option_is_not_repeated():
    run = dataclasses.replace(RUN, command="pytest suites --lf")
    assert text(next_lines([REPORTS[2]], run, width=80)).splitlines()[-1] == "pytest suites --lf"


@pytest.mark.parametrize("given", ["--sdperf-processes=5", "--processes=5"])
def test_another_value_of_an_option_makes_room_by_either_of_its_names(given):
    run = {"command": f"pytest suites {given} -x", "sessions": 3}
    assert judged(Outcome.INCONCLUSIVE, **run) == (
        "next, measure with more processes, on a quieter machine:\npytest suites -x --sdperf-processes=10"
    )


def test_what_was_replaced_is_told_though_nothing_was_disturbed_in_the_end():
    slow = waited(measurement(119), 0.4).samples
    replaced = dataclasses.replace(measurement(), replaced=slow)
    new = Verdict(Outcome.NEW, "no-baseline", "S.", "latency")
    assert text(finding_lines([CaseReport("t", case(), replaced, verdicts=(new,))], width=200)).splitlines() == [
        "NEW 1 case without a baseline; nothing was compared, and results are kept as candidates",
        (
            "1 process of 1 case waited up to 40 % of the time for processors that something else used: measured "
            "again, and not judged. --sdperf-json holds them as `replaced`."
        ),
    ]


QUOTED = "pytest 'my suites/test_it.py' -k 'fast and not slow' '--json=out put.json'"


@pytest.mark.parametrize(
    ("outcomes", "run", "command"),
    [
        ((Outcome.REGRESSED,), {}, f"{QUOTED} --lf"),
        ((Outcome.INCONCLUSIVE,), {}, f"{QUOTED} --sdperf-processes=10"),
        ((Outcome.HELD,), {"sessions": 3}, "sdperf gate 'out put.json' --gpu=rtx-3060-12gb"),
        ((Outcome.NEW,), {"in_process": True, "command": f"{QUOTED} -osdperf_inprocess=true"}, QUOTED),
        ((), {}, f"{QUOTED} --collect-only -q"),
        ((Outcome.HELD,), {"resumable": 1}, f"{QUOTED} --sdperf-resume"),
    ],
)
def test_a_command_with_quoted_words_keeps_them(outcomes, run, command):
    assert judged(*outcomes, **{"command": QUOTED, **run}).splitlines()[-1] == command


@pytest.mark.parametrize("given", ["--sdperf-processes 4", "--processes 4", "--processes=4"])
def test_a_value_that_stands_alone_goes_with_its_option(given):
    run = {"command": f"pytest {given} suites", "sessions": 3}
    assert judged(Outcome.INCONCLUSIVE, **run).splitlines()[-1] == "pytest suites --sdperf-processes=10"


@pytest.mark.parametrize(("given", "next_one"), [(9, 10), (10, 20), (24, 48)])
def test_more_is_never_what_was_given_already(given, next_one):
    run = {"command": f"pytest suites --sdperf-processes={given}", "sessions": 3}
    assert judged(Outcome.INCONCLUSIVE, **run).splitlines()[-1] == f"pytest suites --sdperf-processes={next_one}"


def test_no_smaller_batch_than_one_is_advised():
    verdicts = (Verdict(Outcome.INCONCLUSIVE, "out-of-memory", "S.", "replay"),)
    reports = [CaseReport("t", case(batch_size=1), verdicts=verdicts)]
    run = dataclasses.replace(RUN, command="pytest suites")
    found = text(next_lines(reports, run, width=80))
    assert found == "next, see how much memory it took before:\npytest suites --sdperf-plan"


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (Outcome.REGRESSED, "next, measure what regressed again:\npytest suites"),
        (Outcome.INVALID, "next, measure what was invalid again, once its reason is gone:\npytest suites"),
    ],
)
def test_what_failed_is_not_asked_of_a_pytest_that_notes_no_failures(outcome, line):
    assert judged(outcome, remembers_failures=False) == line


@pytest.mark.parametrize(
    ("command", "accepts"),
    [
        ("pytest suites --baselines=cards --state-dir 'my state'", "--baselines=cards '--state-dir=my state'"),
        ("pytest suites --sdperf-baselines 'my cards' --sdperf-state-dir=s", "'--baselines=my cards' --state-dir=s"),
        ("pytest suites --baselines=a --baselines=b", "--baselines=b"),
    ],
)
def test_what_accepts_looks_where_the_run_did(command, accepts):
    assert judged(Outcome.NEW, command=command).splitlines()[-1] == f"sdperf baselines accept {accepts}"


@pytest.mark.parametrize(
    ("command", "accepts"),
    [
        ("pytest suites", "pytest suites --sdperf-update-baselines"),
        ("pytest suites --json=out.json", "sdperf baselines accept out.json"),
    ],
)
def test_counts_are_accepted_from_results_or_by_another_run(command, accepts):
    assert judged(Outcome.NEW, metric="fusions", measured=False, command=command).splitlines()[-1] == accepts


@pytest.mark.parametrize("results", ["", "out.json"])
def test_behind_a_disturbed_baseline_nothing_is_advised_to_be_accepted(results):
    shared = Verdict(Outcome.INCONCLUSIVE, "baseline-shared", "S.", "latency")
    new = Verdict(Outcome.NEW, "no-baseline", "S.", "kernels")
    reports = [CaseReport("t", case(), measurement(), verdicts=verdicts) for verdicts in ((shared, new), (new,))]
    run = dataclasses.replace(RUN, command="pytest suites", results=results)
    assert text(next_lines(reports, run, width=100)) == (
        "next, measure the baseline again where nothing else runs, with what it was measured with:\npytest suites"
    )


@pytest.mark.parametrize("outcome", [Outcome.NEW, Outcome.IMPROVED, Outcome.HELD])
@pytest.mark.parametrize("results", ["", "out.json"])
def test_what_was_disturbed_is_not_advised_to_be_accepted(outcome, results):
    verdict = Verdict(outcome, "c", "S.", "latency")
    disturbed = CaseReport("t", case(), waited(measurement(), 0.4), verdicts=(verdict,))
    run = dataclasses.replace(RUN, command="pytest suites", results=results)
    assert text(next_lines([disturbed], run, width=80)) == (
        "next, measure again where nothing else runs, before you accept anything:\npytest suites"
    )
    quiet = CaseReport("u", case(batch_size=4), measurement(), verdicts=(Verdict(Outcome.NEW, "c", "S.", "latency"),))
    advice = {
        Outcome.HELD: "next, accept the result:\n",
    }.get(
        outcome,
        "next, accept 1 of 2 results that are new or improved; the others need a reason,\nor to be measured again:\n",
    )
    assert text(next_lines([disturbed, quiet], run, width=80)).startswith(advice)


def test_saved_results_are_accepted_where_the_gate_looked():
    run = {"results": "out.json", "baselines": "cards/h200.json"}
    assert judged(Outcome.NEW, **run).splitlines()[-1] == "sdperf baselines accept out.json --baselines=cards"
    assert judged(Outcome.INCONCLUSIVE, results="out.json") == (
        "next, measure with more processes, on a quieter machine:\npytest suites --sdperf-processes=10"
    )


OTHER = ("--sdperf-other", "--other")
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12).filter(
    lambda word: word.partition("=")[0] not in OTHER
)


@given(st.lists(WORDS, max_size=4), st.sampled_from(OTHER), st.booleans(), st.lists(WORDS, max_size=4))
def test_a_command_survives_whatever_its_words_are(before, name, alone, after):
    given = [name, "old value"] if alone else [f"{name}=old value"]
    command = shlex.join(["pytest", *before, *given, *after])
    added = typed.with_option(command, "--sdperf-other=new value", also="--other")
    assert shlex.split(added) == ["pytest", *before, *after, "--sdperf-other=new value"]
    assert shlex.split(typed.without(command, OTHER)) == ["pytest", *before, *after]
    assert list(typed.values_of(command, *OTHER)) == ["old value"]


def test_an_option_of_somebody_else_stays():
    run = {"command": "pytest suites --resume=5", "resumable": 1}
    assert judged(Outcome.HELD, **run).splitlines()[-1] == "pytest suites --resume=5 --sdperf-resume"


@pytest.mark.parametrize(
    ("code", "metric", "line"),
    [
        ("graph-not-seen", "cuda-graph", "next, see which libraries could tell what was not seen:\nsdperf doctor"),
        ("placement-not-seen", "placement", "next, see which libraries could tell what was not seen:\nsdperf doctor"),
        ("out-of-memory", "replay",
         "next, compare something smaller, which fits:\npytest suites --sdperf-batch-size=1"),
    ],
)  # fmt: skip
def test_more_processes_are_not_advised_where_they_settle_nothing(code, metric, line):
    verdicts = (Verdict(Outcome.INCONCLUSIVE, code, "S.", metric),)
    run = dataclasses.replace(RUN, command="pytest suites --batch-size=8")
    assert text(next_lines([CaseReport("t", case(batch_size=8), verdicts=verdicts)], run, width=80)) == line


def test_nothing_judged_is_said():
    assert count_line([]).text == "verdicts: none, nothing was judged"


# ---------------------------------------------------------------------------------------------- run and width


def test_what_changed_and_how_many_sessions_there_are():
    of = case(**FULL)
    reports = [scene(of, 20, 20)]
    old = session(subject={"onnxruntime": "1.30.0", "numpy": "2.0"})
    baseline = Baseline(machine={}, cases={of.key: stored(old, old, of=of)})
    assert changes_of(reports, baseline) == ("numpy 2.0 -> absent", "onnxruntime 1.30.0 -> 1.31.1")
    assert sessions_of(reports, baseline) == 2
    assert sessions_of([*reports, scene(case(), 20, 20)], baseline) == 0
    assert (changes_of(reports, None), sessions_of(reports, None), sessions_of([], baseline)) == ((), 0, 0)


@settings(max_examples=30)
@given(st.integers(60, 200))
def test_no_line_but_a_name_or_a_command_is_wider_than_the_terminal(width):
    names = {report.nodeid for report in REPORTS}
    for line in report_lines(REPORTS, RUN, width=max(width, 80), published=FILES, verbosity=1):
        whole = any(name in line.text for name in names) or line.text.startswith("pytest ")
        assert whole or len(line.text) <= max(width, 80)


def test_wrapping_keeps_lines_of_a_quotation_and_long_words():
    word = "x" * 90
    assert [line.text for line in wrapped(f"one\n{word}\n", width=60, first="> ", rest="  ")] == ["> one", f"  {word}"]
    assert [line.text for line in wrapped("", width=60)] == [""]


def test_a_peak_that_jumps_from_process_to_process_is_marked():
    measured = dataclasses.replace(measurement(), samples=took(3721, 2697, 2693))
    told = text(table_lines([CaseReport("suites/test_it.py::test_it", measured.case, measurement=measured)], width=120))
    assert "2,693>   2,693>" in told
    wide = CaseReport("suites/test_it.py::test_it", measured.case, measured, policy=Policy(memory_effect=0.4))
    assert "2,693    2,693" in text(table_lines([wide], width=120))
    assert told.endswith(
        "  unet 128x128 fp16 ort-cpu, batch 1: both runs up to 3,721 MB in 1 of 3 processes\n"
        "  > more in other processes of the case, as told above; MB = 2^20 bytes on the whole device, peak of the "
        "first and the\n  second run, the least of the processes"
    )
    uneven = [dataclasses.replace(one, first_run_bytes=2693 * 2**20) for one in took(7950, 3721, 2697)]
    named = CaseReport("a::b", measured.case, dataclasses.replace(measured, samples=tuple(uneven)))
    assert "  unet 128x128 fp16 ort-cpu, batch 1: second run up to 7,950 MB in 2 of 3 processes" in [
        line.text for line in table_lines([named], width=120)
    ]
    # What is stored of it says the same.
    kept = msgspec.structs.replace(session(), samples=measured.samples)
    assert stored_words(kept) == "10.0 ms, 2,693 MB (up to 3,721 in 1 of 3 processes)"


@pytest.mark.parametrize(
    ("policy", "slowest_ms", "told"),
    [
        (Policy(), 8.1, []),
        (Policy(), 9.2, ["  unet 128x128 fp16 ort-cpu, batch 1: processes differ: 7.95 to 9.20 ms"]),
        (Policy(on_cpu=True), 10.3, []),
        (Policy(on_cpu=True), 10.4, ["  unet 128x128 fp16 ort-cpu, batch 1: processes differ: 7.95 to 10.4 ms"]),
        (Policy(min_effect=0.2), 9.2, []),
    ],
)
def test_processes_that_would_hide_the_smallest_effect_are_told_apart(policy, slowest_ms, told):
    measured = measurement(7.95, slowest_ms, 8)
    lines = table_lines([CaseReport("suites/test_it.py::test_it", measured.case, measured, policy=policy)], width=120)
    assert [line.text for line in lines if "processes differ" in line.text] == told


def test_times_taken_beside_other_programs_are_named():
    quiet, busy, busier = (
        waited(measurement(case=case(batch_size=number)), share) for number, share in ((1, 0.04), (2, 0.5), (4, 0.671))
    )
    found = [CaseReport("suites/test_it.py::test_it", one.case, measurement=one) for one in (quiet, busy, busier, busy)]
    assert text(finding_lines(found, width=100)).splitlines() == [
        "While 2 cases were timed, something else used the processors: their threads waited up to 67.1 % of",
        "  the time. Measure again where nothing else runs, before you accept what is here.",
    ]
    assert text(finding_lines(found[:1], width=120)) == ""
