from __future__ import annotations

import dataclasses
import itertools
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_values import CASE, COUNTS, MB, case, failed, measurement, sample, session, stored, took, waited

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import delivery, exit_status, judge, worst
from pytest_sdperf.checks.pipelines.judging.memory import chance_of_all
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.tolerances import NAMES, OF_TOLERANCE, Override
from pytest_sdperf.core.values import Measurement, Sample, to_json
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.floor import Floor
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

GPU = Policy()
CPU = Policy(on_cpu=True)
FAIL_NEW = Policy(fail_on_new=True)
STRICT = Policy(fail_on_inconclusive=True)
COMPLETE = Policy(fail_on_not_measured=True)

PASSED, FAILED = Outcome.PASSED, Outcome.FAILED
HELD, IMPROVED, NEW, GAP = Outcome.HELD, Outcome.IMPROVED, Outcome.NEW, Outcome.GAP
NOT_MEASURED = Outcome.NOT_MEASURED
INCONCLUSIVE, INVALID, REGRESSED = Outcome.INCONCLUSIVE, Outcome.INVALID, Outcome.REGRESSED

MODULE = case(fuser="", exporter="", opset=0, shapes="", engine="torch")
PIPELINE = case(component="pipeline", steps=4, scheduler="ddim", exporter="", fuser="")
OOM = failed("oom", "out of memory")
OOM_BEFORE = stored(session(failure="oom"))
FIVE = [session(10 + 0.01 * i, 10, 10, date=f"2026-11-2{i}T10:00Z") for i in range(5)]
NOISY = (7.0, 10.0, 14.0)
WITHOUT_SAMPLES = stored(msgspec.structs.replace(session(), samples=()))


def graph(**changes):
    return {"unet": {**COUNTS["unet"], **{name.replace("__", "::"): count for name, count in changes.items()}}}


def broken(*times_s, calls=0):
    """A measurement of which one process reports something that cannot be."""
    good = sample(10.0)
    return Measurement(CASE, (good, good, dataclasses.replace(good, iterations_s=times_s, unet_calls=calls)))


def floor(bound_ms):
    return Floor(1.6065e12, 2.5e11, 1.72e9, seconds=bound_ms / 800, basis="measured", bound_s=bound_ms / 1000)


def rates(tflops, terabytes=3.0, by="torch 2.13.0"):
    return Calibration(tflops * 1e12, terabytes * 1e12, "float16", by)


def allocated(measured, mb):
    """Every process's own allocator handed out this much in the second run."""
    peaks = {"allocator": {"first_run": 3000 * MB, "second_run": mb * MB}}
    samples = tuple(dataclasses.replace(one, peaks_bytes=peaks) for one in measured.samples)
    change = dataclasses.replace if dataclasses.is_dataclass(measured) else msgspec.structs.replace
    return change(measured, samples=samples)


CARD = rates(780)
CARD_BEFORE = rates(780, by="torch 2.11.0")
BOOKED = stored(allocated(session(), 2000))
# metric, measurement, stored case, policy -> outcome and code of that metric's verdict
TABLE = [
    # latency against one stored session
    ("latency", measurement(), stored(), GPU, HELD, "latency-inside-interval"),
    ("latency", measurement(13, 13, 13.1), stored(), GPU, REGRESSED, "latency-above-interval"),
    ("latency", measurement(7, 7, 7.1), stored(), GPU, IMPROVED, "latency-below-interval"),
    ("latency", measurement(10.15, 10.15, 10.15), stored(session(10, 10, 10)), GPU, HELD, "latency-inside-interval"),
    ("latency", measurement(10.25, 10.25, 10.25), stored(session(10, 10, 10)), GPU, REGRESSED,
     "latency-above-interval"),
    ("latency", measurement(*NOISY), stored(session(*NOISY)), GPU, INCONCLUSIVE, "latency-too-noisy"),
    ("latency", measurement(70, 100, 140), stored(session(*NOISY)), GPU, REGRESSED, "latency-above-interval"),
    # latency against several
    ("latency", measurement(), stored(*FIVE), GPU, HELD, "latency-inside-interval"),
    ("latency", measurement(10.4, 10.4, 10.4), stored(*FIVE), GPU, REGRESSED, "latency-above-interval"),
    ("latency", measurement(9.6, 9.6, 9.6), stored(*FIVE), GPU, IMPROVED, "latency-below-interval"),
    ("latency", measurement(20, 20, 20), stored(session(), session(20, 20, 20, changed=("latency",))), GPU, HELD,
     "latency-inside-interval"),
    # a CPU
    ("latency", measurement(12, 12, 12.1), stored(), CPU, INCONCLUSIVE, "latency-small-on-cpu"),
    ("latency", measurement(13.5, 13.5, 13.6), stored(), CPU, REGRESSED, "latency-above-interval"),
    ("latency", measurement(9, 9, 9.1), stored(), CPU, HELD, "latency-inside-interval"),
    ("latency", measurement(7, 7, 7.1), stored(), CPU, IMPROVED, "latency-below-interval"),
    ("latency", measurement(5, 10, 20), stored(session(5, 10, 20)), CPU, INCONCLUSIVE, "latency-too-noisy"),
    # not one repeated process
    ("latency", measurement(10), stored(session(10)), Policy(processes=1), INCONCLUSIVE, "latency-no-replicates"),
    ("latency", measurement(30), stored(session(10)), Policy(processes=1), INCONCLUSIVE, "latency-no-replicates"),
    # no baseline
    ("latency", measurement(), None, GPU, NEW, "no-baseline"),
    ("latency", OOM, None, GPU, NEW, "no-baseline"),
    ("first-run-memory", measurement(), None, GPU, NEW, "no-baseline"),
    ("counts", measurement(), None, GPU, NEW, "no-baseline"),
    # out of memory is a value
    ("latency", OOM, OOM_BEFORE, GPU, HELD, "oom-as-before"),
    ("latency", OOM, stored(), GPU, REGRESSED, "oom-instead-of-number"),
    ("latency", measurement(), OOM_BEFORE, GPU, IMPROVED, "number-instead-of-oom"),
    ("second-run-memory", measurement(), OOM_BEFORE, GPU, NEW, "no-baseline"),
    # memory of a device: 2 %, of a host: 10 %
    ("first-run-memory", measurement(first=505, source="device"), stored(session(source="device")), GPU, HELD,
     "memory-inside-limit"),
    ("first-run-memory", measurement(first=515, source="device"), stored(session(source="device")), GPU, REGRESSED,
     "memory-above-limit"),
    ("first-run-memory", measurement(first=485, source="device"), stored(session(source="device")), GPU, IMPROVED,
     "memory-below-limit"),
    ("second-run-memory", measurement(second=435), stored(), CPU, HELD, "memory-inside-limit"),
    ("second-run-memory", measurement(second=445), stored(), CPU, REGRESSED, "memory-above-limit"),
    ("second-run-memory", measurement(second=355), stored(), CPU, IMPROVED, "memory-below-limit"),
    ("second-run-memory", measurement(second=23), stored(session(second=20)), CPU, HELD, "memory-inside-limit"),
    ("second-run-memory", measurement(second=25), stored(session(second=20)), CPU, REGRESSED, "memory-above-limit"),
    ("first-run-memory", measurement(first=None), stored(session(first=None)), CPU, None, ""),
    ("first-run-memory", measurement(first=None), None, CPU, None, ""),
    ("first-run-memory", measurement(first=None), None, GPU, INVALID, "memory-missing"),
    ("first-run-memory", measurement(first=None), stored(), CPU, INVALID, "memory-missing"),
    ("first-run-memory", measurement(first=0), stored(), CPU, INVALID, "memory-missing"),
    ("first-run-memory", measurement(first=-1), None, CPU, INVALID, "memory-missing"),
    ("first-run-memory", measurement(), stored(session(first=None)), CPU, NEW, "no-baseline"),
    ("first-run-memory", measurement(), stored(session(first=0)), CPU, INVALID, "baseline-unusable"),
    ("first-run-memory", measurement(source="device"), stored(), GPU, INVALID, "memory-source-changed"),
    # graphs
    ("counts", measurement(), stored(), GPU, HELD, "graph-as-before"),
    ("counts", measurement(counts=graph(com_x=0)), stored(), GPU, HELD, "graph-as-before"),
    ("counts", measurement(counts=graph(__Identity=4)), stored(), GPU, HELD, "graph-as-before"),
    ("counts", measurement(counts=graph(__Identity=5)), stored(), GPU, REGRESSED, "graph-grew"),
    ("counts", measurement(counts=graph(__Add=60)), stored(), GPU, IMPROVED, "graph-shrank"),
    ("counts", measurement(counts={"unet": {**COUNTS["unet"], "com.microsoft::SkipLayerNormalization": 31}}), stored(),
     GPU, REGRESSED, "fused-operators-lost"),
    ("counts", measurement(counts={"unet": {**COUNTS["unet"], "com.microsoft::SkipLayerNormalization": 31,
                                            "::Add": 10}}), stored(), GPU, REGRESSED, "fused-operators-lost"),
    ("counts", measurement(counts={"unet": {"::Conv": 98, "::Add": 60, "com.microsoft::SkipLayerNormalization": 33}}),
     stored(), GPU, IMPROVED, "more-fused"),
    ("counts", measurement(counts={"unet": {"::Conv": 98, "::Add": 38, "com.microsoft::SkipSimplified": 32}}),
     stored(), GPU, IMPROVED, "more-fused"),
    ("counts", measurement(counts={"unet": {"::Conv": 0}}), stored(), GPU, INVALID, "counts-empty"),
    ("counts", measurement(counts={"unet": {"::Conv": 9, "::Add": -1}}), stored(), GPU, INVALID, "counts-empty"),
    ("counts", measurement(counts={}), stored(), GPU, INVALID, "counts-missing"),
    ("counts", measurement(counts={}), None, GPU, INVALID, "counts-missing"),
    ("counts", measurement(case=MODULE, counts={}), None, GPU, None, ""),
    ("counts", measurement(case=MODULE, counts={}), stored(session(counts={}), of=MODULE), GPU, None, ""),
    ("counts", measurement(), stored(session(counts={})), GPU, NEW, "no-baseline"),
    ("counts", measurement(), stored(session(counts={"unet": {"::Conv": 0}})), GPU, INVALID, "baseline-unusable"),
    ("counts", measurement(), stored(session(counts={**COUNTS, "vae_decoder": {"::Conv": 5}})), GPU, INVALID,
     "counts-missing"),
    # not fit to be judged
    ("measurement", measurement(health=("the GPU is shared",)), stored(), GPU, INVALID, "machine-not-fit"),
    ("measurement", failed("crash", "the worker died"), stored(), GPU, INVALID, "worker-crash"),
    ("measurement", failed("timeout", "no answer"), None, GPU, INVALID, "worker-timeout"),
    ("measurement", failed("killed", "signal 9"), stored(), GPU, INVALID, "worker-killed"),
    ("measurement", failed("protocol", "no JSON"), stored(), GPU, INVALID, "worker-protocol"),
    ("measurement", failed("error", "ValueError"), OOM_BEFORE, GPU, INVALID, "worker-error"),
    ("measurement", failed("refused", "no disk"), OOM_BEFORE, GPU, INVALID, "refused"),
    ("measurement", measurement(10, 10), stored(), GPU, INVALID, "samples-missing"),
    ("measurement", Measurement(CASE, ()), stored(), GPU, INVALID, "samples-missing"),
    ("measurement", Measurement(CASE, ()), None, Policy(processes=0), INVALID, "samples-missing"),
    ("measurement", broken(), stored(), GPU, INVALID, "latency-missing"),
    ("measurement", broken(0.0), stored(), GPU, INVALID, "latency-not-positive"),
    ("measurement", broken(0.01, -0.01), stored(), GPU, INVALID, "latency-not-positive"),
    ("measurement", broken(math.nan), stored(), GPU, INVALID, "latency-not-positive"),
    ("measurement", broken(math.inf), None, GPU, INVALID, "latency-not-positive"),
    ("measurement", measurement(case=PIPELINE, counts={}), None, GPU, INVALID, "unet-calls-missing"),
    ("measurement", measurement(case=PIPELINE, counts={}, calls=5), stored(session(calls=4), of=PIPELINE), GPU, INVALID,
     "unet-calls-changed"),
    ("latency", measurement(case=PIPELINE, counts={}, calls=5), stored(session(calls=5), of=PIPELINE), GPU, HELD,
     "latency-inside-interval"),
    # the engine's own allocator
    ("allocator-memory", allocated(measurement(), 2000), None, GPU, NEW, "no-baseline"),
    ("allocator-memory", allocated(measurement(), 2000), stored(), GPU, NEW, "no-baseline"),
    ("allocator-memory", allocated(measurement(), 2000), BOOKED, GPU, HELD, "memory-inside-limit"),
    ("allocator-memory", allocated(measurement(), 2025), BOOKED, GPU, REGRESSED, "memory-above-limit"),
    ("allocator-memory", allocated(measurement(), 1975), BOOKED, CPU, IMPROVED, "memory-below-limit"),
    ("allocator-memory", measurement(), BOOKED, GPU, INVALID, "memory-missing"),
    ("allocator-memory", measurement(), stored(), GPU, None, None),
    # the physical floor
    ("measurement", measurement(floor=floor(9.8)), stored(), GPU, None, None),
    ("measurement", measurement(floor=floor(9.95)), stored(), GPU, INVALID, "below-floor"),
    ("measurement", measurement(5, 5, 5, floor=floor(9.95)), None, GPU, INVALID, "below-floor"),
    # the card itself
    ("latency", measurement(13, 13, 13.1, calibration=rates(600)), stored(session(calibration=CARD)), GPU, INVALID,
     "card-slower"),
    ("latency", measurement(13, 13, 13.1, calibration=rates(780, 2.3)), stored(session(calibration=CARD)), GPU,
     INVALID, "card-slower"),
    ("latency", measurement(16, 16, 16, calibration=rates(600)), stored(session(calibration=CARD)), GPU, REGRESSED,
     "latency-above-interval"),
    ("latency", measurement(13, 13, 13.1, calibration=rates(770)), stored(session(calibration=CARD)), GPU,
     REGRESSED, "latency-above-interval"),
    ("latency", measurement(13, 13, 13.1, calibration=rates(600)), stored(), GPU, REGRESSED, "latency-above-interval"),
    ("latency", measurement(13, 13, 13.1, calibration=rates(600)), stored(session(calibration=CARD_BEFORE)), GPU,
     REGRESSED, "latency-above-interval"),
    ("latency", measurement(13, 13, 13.1, calibration=rates(600)),
     stored(session(calibration=CARD_BEFORE), session(calibration=CARD)), GPU, INVALID, "card-slower"),
    ("latency", measurement(13, 13, 13.1), stored(session(calibration=CARD)), GPU, REGRESSED,
     "latency-above-interval"),
    ("latency", measurement(20, 20, 20, calibration=rates(390)), stored(session(calibration=CARD)), CPU, REGRESSED,
     "latency-above-interval"),
    ("latency", measurement(calibration=rates(600)), stored(session(calibration=CARD)), GPU, HELD,
     "latency-inside-interval"),
    # other programs used the processors: now, before, and not enough to explain it
    ("latency", waited(measurement(20, 20, 20.1), 0.5), stored(), CPU, INVALID, "processors-shared"),
    ("latency", waited(measurement(20, 20, 20.1), 0.5), waited(stored(), 0.5), CPU, REGRESSED,
     "latency-above-interval"),
    ("latency", waited(measurement(33.7, 33.7, 33.8), 0.505), waited(stored(), 0.005), CPU, INVALID,
     "processors-shared"),
    ("latency", waited(measurement(60, 60, 60.1), 0.5), waited(stored(), 0.01), CPU, REGRESSED,
     "latency-above-interval"),
    ("latency", waited(measurement(20, 20, 20.1), 0.1), waited(stored(), 0.01), CPU, REGRESSED,
     "latency-above-interval"),
    ("latency", waited(measurement(11, 11, 11.1), 0.1), waited(stored(), 0.0), GPU, INVALID, "processors-shared"),
    ("latency", waited(measurement(20, 20, 20.1), 0.04), stored(), CPU, REGRESSED, "latency-above-interval"),
    ("latency", waited(measurement(5, 5, 5.1), 0.0), waited(stored(), 0.5), CPU, INCONCLUSIVE, "baseline-shared"),
    ("latency", waited(measurement(1, 1, 1.1), 0.0), waited(stored(), 0.5), CPU, IMPROVED, "latency-below-interval"),
    ("latency", measurement(5, 5, 5.1), waited(stored(), 0.5), CPU, IMPROVED, "latency-below-interval"),
    ("latency", waited(measurement(), 0.5), waited(stored(), 0.5), CPU, HELD, "latency-inside-interval"),
    # a baseline that cannot be used
    ("latency", measurement(), WITHOUT_SAMPLES, GPU, INVALID, "baseline-unusable"),
    ("latency", OOM, WITHOUT_SAMPLES, GPU, INVALID, "baseline-unusable"),
]  # fmt: skip


@pytest.mark.parametrize(
    "row", TABLE, ids=[f"{number}-{row[0]}-{row[5] or 'no verdict'}" for number, row in enumerate(TABLE)]
)
def test_table(row):
    metric, measured, before, policy, outcome, code = row
    verdicts = judge(measured, before, policy=policy)
    found = [(verdict.outcome, verdict.code) for verdict in verdicts if verdict.metric == metric]
    assert (outcome, code) in found if outcome else found == []
    assert all(verdict.sentence.endswith(".") for verdict in verdicts)


@pytest.mark.parametrize("row", TABLE, ids=[f"{number}-{row[0]}" for number, row in enumerate(TABLE)])
def test_where_nothing_is_stored_no_verdict_speaks_of_it(row):
    _, measured, _, policy, *_ = row
    assert not {verdict.outcome for verdict in judge(measured, None, policy=policy)} & {HELD, IMPROVED, REGRESSED, GAP}


def test_table_reaches_every_outcome_and_code():
    # Gaps and what a time budget left out are no matter of one measurement, and derived limits none of a baseline.
    assert {row[4] for row in TABLE} - {None} == set(Outcome) - {GAP, NOT_MEASURED, PASSED, FAILED}
    assert len(TABLE) >= 40


def test_processes_that_call_the_unet_differently_are_not_one_measurement():
    mixed = Measurement(PIPELINE, (sample(calls=4), sample(calls=4), sample(calls=5)))
    assert [verdict.code for verdict in judge(mixed, None, policy=GPU)] == ["unet-calls-differ"]


@pytest.mark.parametrize(
    ("differences", "code", "sentence"),
    [
        (
            {"driver": ("550.1", "580.2")},
            "driver-changed",
            (
                "The baseline was recorded under another driver: driver was 550.1 and is 580.2; a driver is not what "
                'is tested. To start anew under this one, type: sdperf baselines accept --re-anchor --reason="new '
                'driver".'
            ),
        ),
        (
            {"driver": ("550.1", "580.2"), "power_limit_w": (300, None)},
            "machine-changed",
            (
                "The baseline was recorded on another machine: driver was 550.1 and is 580.2, power_limit_w was 300 "
                "and is not known."
            ),
        ),
    ],
)
@pytest.mark.parametrize("before", [None, stored()])
def test_another_machine_is_never_compared(differences, code, sentence, before):
    (verdict,) = judge(measurement(), before, policy=GPU, differences=differences)
    assert (verdict.outcome, verdict.code, verdict.sentence) == (INVALID, code, sentence)


NORM, SKIP = "com.microsoft::GroupNorm", "com.microsoft::SkipGroupNorm"
ACTIVATED = {f"{NORM}[silu]": 16, f"{SKIP}[silu]": 29, SKIP: 16}
TOGETHER = {NORM: 16, SKIP: 45}
WITHOUT_SILU = {**TOGETHER, "::Sigmoid": 45, "::Mul": 45}


@pytest.mark.parametrize(
    ("before", "now", "outcome", "code"),
    [
        (ACTIVATED, ACTIVATED, HELD, "graph-as-before"),
        (TOGETHER, ACTIVATED, HELD, "graph-as-before"),  # stored before they were counted apart
        (TOGETHER, {**ACTIVATED, SKIP: 15}, REGRESSED, "fused-operators-lost"),
        (TOGETHER, WITHOUT_SILU, REGRESSED, "graph-grew"),
        (ACTIVATED, WITHOUT_SILU, REGRESSED, "fused-operators-lost"),
        (WITHOUT_SILU, ACTIVATED, IMPROVED, "graph-shrank"),
    ],
)
def test_norms_with_an_activation_are_compared_with_what_was_stored_before_they_were_counted_apart(
    before, now, outcome, code
):
    known, measured = ({"unet": {"::Conv": 98, **counts}} for counts in (before, now))
    verdicts = judge(measurement(counts=measured), stored(session(counts=known)), policy=GPU)
    assert [(v.outcome, v.code) for v in verdicts if v.metric == "counts"] == [(outcome, code)]


def test_a_build_without_an_engine_is_judged_by_its_graph_alone():
    build = Measurement(case(engine=""), (), counts=COUNTS)
    before = stored(session(), of=case(engine=""))
    assert [(v.metric, v.outcome) for v in judge(build, before, policy=GPU)] == [("counts", HELD)]
    nothing = Measurement(case(engine="", exporter=""), ())
    assert [(v.outcome, v.code) for v in judge(nothing, None, policy=GPU)] == [(INVALID, "nothing-measured")]


def test_every_graph_of_a_pipeline_has_its_own_verdict():
    both = {"unet": COUNTS["unet"], "vae_decoder": {"::Conv": 40}}
    verdicts = judge(measurement(counts=both), stored(session(counts=COUNTS)), policy=GPU)
    assert [(v.outcome, v.sentence) for v in verdicts if v.metric == "counts"] == [
        (HELD, "UNet graph has 200 nodes, as in its baseline."),
        (NEW, "VAE decoder graph of 40 nodes has no baseline yet."),
    ]


# ------------------------------------------------------------------------------------------------ sentences

ONE = "by the spread of 6 processes; 1 stored session cannot show how days differ"
SENTENCES = [
    (measurement(13.1, 13.1, 13.1), stored(session(10, 10, 10)), GPU,
     f"UNet latency 13.1 ms is 31 % above its baseline of 10.0 ms (held up to 10.2 ms {ONE})."),
    (measurement(13.1, 13.1, 13.1, subject={"onnxruntime": "1.32.0", "torch": "2.13"}), stored(session(10, 10, 10)),
     GPU,
     (f"UNet latency 13.1 ms is 31 % above its baseline of 10.0 ms (held up to 10.2 ms {ONE}); since then: "
     "onnxruntime 1.31.1 -> 1.32.0, torch absent -> 2.13.")),
    (measurement(8, 8, 8), stored(*[session(10, 10, 10)] * 4), GPU,
     "UNet latency 8.00 ms is 20 % below its baseline of 10.0 ms (held down to 9.80 ms by 4 stored sessions)."),
    (measurement(10, 10, 10), stored(session(10, 10, 10), anchor=session(8, 8, 8, date="2026-01-02T03:04Z")), GPU,
     (f"UNet latency 10.0 ms is equal to its baseline of 10.0 ms (held up to 10.2 ms {ONE}); +25 % since the anchor of "
     "2026-01-02.")),
    (measurement(12, 12, 12), stored(session(10, 10, 10)), CPU,
     (f"UNet latency 12.0 ms is 20 % above its baseline of 10.0 ms (held up to 10.2 ms {ONE}), but on a CPU only "
     "effects above 30 % fail.")),
    (measurement(8, 10, 12.5), stored(session(8, 10, 12.5)), GPU,
     ("UNet latency 10.0 ms is equal to its baseline of 10.0 ms, but noise would hide a change of +140 %, and at most "
     "10 % is allowed.")),
    (measurement(10), stored(session(9, 30)), Policy(processes=1, cases=1000),
     ("UNet latency 10.0 ms is 49 % below its baseline of 19.5 ms, but noise would hide any change, and at most 10 % "
     "is allowed.")),
    (measurement(10), stored(session(10)), Policy(processes=1),
     ("UNet latency 10.0 ms is equal to its baseline of 10.0 ms, but no process was repeated, neither now nor in the "
     "baseline, so chance cannot be told from change.")),
    (measurement(13, 13, 13, calibration=rates(600)), stored(session(10, 10, 10, calibration=rates(780))), GPU,
     (f"UNet latency 13.0 ms is 30 % above its baseline of 10.0 ms (held up to 10.2 ms {ONE}); the card itself needs "
     "30 % more time for a matrix product and as much time for a copy; nothing can be said about the build until the "
     "card is as it was.")),
    (measurement(20, 20, 20, calibration=rates(390, 3.15)), stored(session(10, 10, 10, calibration=rates(780))), CPU,
     (f"UNet latency 20.0 ms is 100 % above its baseline of 10.0 ms (held up to 10.2 ms {ONE}); the processor itself "
     "needs 100 % more time for a matrix product and 4.8 % less time for a copy.")),
    (measurement(13, 13, 13, calibration=rates(600)), stored(session(10, 10, 10, calibration=CARD_BEFORE)), GPU,
     (f"UNet latency 13.0 ms is 30 % above its baseline of 10.0 ms (held up to 10.2 ms {ONE}); whether the card itself "
     "has changed is not known: torch 2.11.0 calibrated it then, and torch 2.13.0 now.")),
    (measurement(20, 20, 20, calibration=rates(600)), stored(session(10, 10, 10, calibration=CARD_BEFORE)), CPU,
     (f"UNet latency 20.0 ms is 100 % above its baseline of 10.0 ms (held up to 10.2 ms {ONE}); whether the processor "
     "itself has changed is not known: torch 2.11.0 calibrated it then, and torch 2.13.0 now.")),
    (measurement(10, 10, 10, calibration=rates(600)), stored(session(10, 10, 10, calibration=CARD_BEFORE)), GPU,
     f"UNet latency 10.0 ms is equal to its baseline of 10.0 ms (held up to 10.2 ms {ONE})."),
    (measurement(1, 1, 1, floor=floor(1.62)), None, GPU,
     ("UNet latency 1.00 ms is below the physical floor of 1.62 ms: this device cannot do 1.61 TFLOP and read 1.72 GB "
     "in less. Likely causes: fewer steps than asked for, guidance left out, outputs taken from a cache, a lower "
     "precision than named, or times taken before the device had finished.")),
    (measurement(), None, GPU, "UNet latency 10.0 ms has no baseline yet."),
    (measurement(), None, FAIL_NEW,
     "UNet latency 10.0 ms has no baseline, and --sdperf-fail-on=new asks for one."),
    (OOM, None, GPU, "UNet latency is OOM (the device ran out of memory) and has no baseline yet."),
    (OOM, OOM_BEFORE, GPU, "UNet latency is OOM, as in its baseline."),
    (OOM, stored(), GPU, "UNet latency is OOM: the device ran out of memory where its baseline took 10.0 ms."),
    (measurement(), OOM_BEFORE, GPU, "UNet latency is 10.0 ms where the device ran out of memory before."),
    (measurement(), WITHOUT_SAMPLES, GPU,
     "The baseline of UNet latency cannot be used: no session holds samples."),
    (failed("crash", "the worker ended with signal 11", "a\nb\nc\nd\ne\nSegmentation fault\n"), None, GPU,
     "The worker ended with signal 11. Its last words:\nb\nc\nd\ne\nSegmentation fault"),
    (failed("timeout", "no answer after 900 s."), None, GPU, "No answer after 900 s. It wrote nothing to stderr."),
    (failed("refused", "the disk is full. Make room."), None, GPU, "The disk is full. Make room."),
    (measurement(health=("another process uses the GPU.", "it is hot")), None, GPU,
     "The machine was not fit to be measured: another process uses the GPU; it is hot."),
    (measurement(10), None, GPU, "UNet was measured by 1 process instead of 3."),
    (broken(), None, GPU, "Process 3 of 3 timed no UNet run."),
    (broken(0.0), None, GPU, "Process 3 of 3 reported a UNet time of 0 s, which no run can take."),
    (measurement(case=PIPELINE, counts={}), None, GPU, "The UNet calls of the pipeline were not counted."),
    (measurement(case=PIPELINE, counts={}, calls=5), stored(session(calls=4), of=PIPELINE), GPU,
     "The pipeline made 5 UNet calls; its baseline made 4, so it is not the same work."),
]  # fmt: skip


SPREAD = "by the spread of 6 processes; 1 stored session cannot show how days differ"
FOR_OTHERS = "of the time for processors that something else used"


def test_it_is_said_how_long_threads_waited():
    before = waited(stored(), 0.012)
    assert judge(waited(measurement(20, 20, 20.1), 0.5), before, policy=CPU)[0].sentence == (
        f"UNet latency 20.0 ms is 100 % above its baseline of 10.0 ms (held up to 10.5 ms {SPREAD}); its threads "
        f"waited 50 % {FOR_OTHERS}, 1.2 % in the baseline; that can explain it, and nothing can be said about the "
        "build until they are free."
    )
    assert judge(waited(measurement(5, 5, 5), 0.0), waited(stored(), 0.5), policy=CPU)[0].sentence == (
        f"UNet latency 5.00 ms is 50 % below its baseline of 10.0 ms (held down to 9.54 ms {SPREAD}); its threads "
        f"waited 0 % {FOR_OTHERS}, 50 % in the baseline; that can explain it: measure the baseline again where "
        "nothing else runs."
    )
    assert judge(waited(measurement(), 0.06), before, policy=CPU)[0].sentence == (
        f"UNet latency 10.0 ms is equal to its baseline of 10.0 ms (held up to 10.6 ms {SPREAD}); its threads waited "
        f"6 % {FOR_OTHERS}, 1.2 % in the baseline."
    )
    assert "waited" not in judge(waited(measurement(), 0.04), before, policy=CPU)[0].sentence


@pytest.mark.parametrize(("measured", "before", "policy", "sentence"), SENTENCES)
def test_first_sentence(measured, before, policy, sentence):
    assert judge(measured, before, policy=policy)[0].sentence == sentence


def test_sentences_about_memory_and_graphs():
    counts = {"unet": {"::Conv": 98, "::Add": 76, "::Sqrt": 4, "com.microsoft::SkipLayerNormalization": 30}}
    measured = measurement(first=560, second=None, counts=counts)
    assert [verdict.sentence for verdict in judge(measured, stored(), policy=CPU)][1:] == [
        "UNet first-run memory 560 MB is 12 % above its baseline of 500 MB (held up to 550 MB, 10 % of host memory).",
        "UNet second-run memory is missing from a sample.",
        "UNet graph has 208 nodes; its baseline has 200: SkipLayerNormalization 32 -> 30, Add 70 -> 76, Sqrt 0 -> 4.",
    ]
    assert judge(allocated(measurement(), 2025), BOOKED, policy=GPU)[3].sentence == (
        "UNet allocator memory 2,025 MB is 1.2 % above its baseline of 2,000 MB (held up to 2,020 MB, 1 % of allocator "
        "memory)."
    )
    measured = measurement(first=0, source="device")
    assert [verdict.sentence for verdict in judge(measured, stored(), policy=GPU)][1:3] == [
        "UNet first-run memory of 0 bytes cannot be.",
        "UNet second-run memory cannot be compared: it is device memory now and host memory before.",
    ]


@pytest.mark.parametrize(
    ("now", "before", "outcome"),
    [
        # as an H200 gave it: the same build, whose arena now and then asks for one more block of 1 GB
        ((3721, 2697), [(2689, 2697, 2693)], HELD),
        ((2705, 3711, 2695), [(2689, 2697, 2693)], HELD),
        ((2691, 2695), [(3711, 2697, 2697)], HELD),
        ((2691, 2695), [(3711, 2697, 2697), (3711, 3713, 3711), (2693, 3711, 2691)], HELD),
        # what all processes take more, or less, is no draw
        ((3721, 3711, 3713), [(2689, 2697, 2693)], REGRESSED),
        ((3721, 2760, 3713), [(2689, 2697, 2693)], REGRESSED),
        ((2630, 3711, 3713), [(2689, 2697, 2693)], IMPROVED),
        # what some of the baseline took, too, may be a draw of all
        ((1151, 1165, 1160), [(959, 1151, 1165)], INCONCLUSIVE),
        ((1151, 1165, 1160) * 4, [(959, 1151, 1165)], INCONCLUSIVE),
        ((1151, 1165, 1160) * 4, [(959, 959, 1151)], REGRESSED),
        ((3721, 3711, 3713), [(2689, 2697, 3711), *[(2689, 2697, 2693)] * 4], REGRESSED),
        ((3900, 3911, 3913), [(959, 3711, 3711)], REGRESSED),
    ],
)
def test_memory_is_that_of_the_process_that_took_least(now, before, outcome):
    sessions = [msgspec.structs.replace(session(), samples=took(*peaks)) for peaks in before]
    measured = dataclasses.replace(measurement(), samples=took(*now))
    found = {verdict.metric: verdict for verdict in judge(measured, stored(*sessions), policy=Policy(processes=2))}
    assert {found[metric].outcome for metric in ("first-run-memory", "second-run-memory")} == {outcome}


def test_what_the_others_took_is_said():
    before = msgspec.structs.replace(session(), samples=took(2689, 2697, 2693))
    measured = dataclasses.replace(measurement(), samples=took(3721, 2697, 3711))
    assert [verdict.sentence for verdict in judge(measured, stored(before), policy=GPU)][1] == (
        "UNet first-run memory 2,697 MB is 0.3 % above its baseline of 2,689 MB (held up to 2,743 MB, 2 % of device "
        "memory); 2 of 3 processes took up to 3,721 MB."
    )
    measured = dataclasses.replace(measurement(), samples=took(2600, 2697, 3711))
    assert [verdict.sentence for verdict in judge(measured, stored(before), policy=GPU)][1] == (
        "UNet first-run memory 2,600 MB is 3.3 % below its baseline of 2,689 MB (held down to 2,635 MB, 2 % of device "
        "memory); 1 of 3 processes took up to 3,711 MB."
    )


def test_where_all_may_have_drawn_what_some_of_the_baseline_did_the_chance_is_said():
    before = stored(msgspec.structs.replace(session(), samples=took(959, 1151, 1165)))
    measured = dataclasses.replace(measurement(), samples=took(1151, 1160, 1165))
    verdict = judge(measured, before, policy=GPU)[1]
    assert (verdict.outcome, verdict.code) == (INCONCLUSIVE, "memory-may-be-drawn")
    assert verdict.sentence == (
        "UNet first-run memory 1,151 MB is 20 % above its baseline of 959 MB (held up to 978 MB, 2 % of device "
        "memory); 2 of 3 processes of the baseline took that much too, so that all 3 do can be chance (28.6 %)."
    )
    alone = judge(dataclasses.replace(measured, samples=took(1151)), before, policy=Policy(processes=1))[1]
    assert alone.sentence.endswith("of the baseline took that much too, so that this one does can be chance (60 %).")


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 20))
def test_a_draw_of_all_is_the_rarer_the_more_there_are(drew, others, now):
    one, more = (chance_of_all(count, drew=drew, of=drew + others) for count in (now, now + 1))
    assert 0 < more < one < 1


def test_what_the_others_took_is_said_without_a_baseline():
    measured = dataclasses.replace(measurement(), samples=took(2687, 3713, 2687))
    assert [verdict.sentence for verdict in judge(measured, None, policy=GPU)][1] == (
        "UNet first-run memory 2,687 MB has no baseline yet; 1 of 3 processes took up to 3,713 MB."
    )


def test_verdicts_carry_the_numbers_they_rest_on():
    latency, first, _, counts = judge(measurement(13, 13, 13), stored(session(10, 10, 10)), policy=GPU)
    numbers = [latency.obtained, latency.expected, latency.low, latency.high]
    assert numbers == pytest.approx([0.013, 0.010, 0.01 / 1.02, 0.0102])
    assert (first.obtained, first.expected, first.low, first.high) == (500 * MB, 500 * MB, 450 * MB, 550 * MB)
    assert (counts.obtained, counts.expected) == (200, 200)


# -------------------------------------------------------------------------------------------- failing closed

ABSENT = [
    Measurement(CASE, ()),
    measurement(10, 10),
    broken(),
    broken(math.nan),
    broken(0.0),
    failed("crash", "x"),
    failed("oom", "x"),
    measurement(health=("hot",)),
    measurement(first=None, second=None, counts={}),
]
BASELINES = [None, stored(), OOM_BEFORE, WITHOUT_SAMPLES, stored(session(counts={}, first=None, second=None))]


@pytest.mark.parametrize(("measured", "before"), list(itertools.product(ABSENT, BASELINES)))
@pytest.mark.parametrize("policy", [GPU, CPU])
def test_nothing_is_held_that_was_not_measured_and_stored(measured, before, policy):
    verdicts = judge(measured, before, policy=policy)
    assert verdicts
    for verdict in verdicts:
        if verdict.outcome is HELD and verdict.code != "oom-as-before":
            assert verdict.obtained is not None
            assert verdict.obtained > 0
            assert verdict.expected is not None
            assert verdict.expected > 0
    if before is None:
        assert HELD not in {verdict.outcome for verdict in verdicts}


FIELDS = ["iterations_s", "first_run_bytes", "second_run_bytes"]


# A stored sample without times is refused where its file is read.
@pytest.mark.parametrize(
    ("side", "field"), [*itertools.product(["measured"], FIELDS), *itertools.product(["stored"], FIELDS[1:])]
)
def test_removing_one_number_never_leaves_a_pass(field, side):
    """A mutation of either side: the metric that lost its number must not be HELD or IMPROVED."""
    metric = {"iterations_s": "latency", "first_run_bytes": "first-run-memory", "second_run_bytes": "second-run-memory"}
    removed = convert({**to_json(sample()), field: () if field == "iterations_s" else None}, Sample)
    measured, before = measurement(10, 10, 10), stored(session(10, 10, 10))
    if side == "measured":
        measured = dataclasses.replace(measured, samples=(*measured.samples[:2], removed))
    else:
        damaged = msgspec.structs.replace(before.last, samples=(*before.last.samples[:2], removed))
        before = stored(damaged)
    outcomes = {v.outcome for v in judge(measured, before, policy=CPU) if v.metric in (metric[field], "measurement")}
    assert outcomes == {INVALID}


# ------------------------------------------------------------------------------------ what becomes of verdicts


def verdicts_of(*outcomes):
    return [Verdict(outcome, "code", "Sentence.", "latency") for outcome in outcomes]


def test_worst_follows_the_order_of_outcomes_and_nothing_is_invalid():
    assert worst(Outcome) is FAILED
    assert worst((HELD, INCONCLUSIVE, NEW)) is INCONCLUSIVE
    assert worst((PASSED, HELD)) is HELD
    assert worst((PASSED,)) is PASSED
    assert worst(()) is INVALID


@pytest.mark.parametrize(
    ("outcomes", "policy", "expected"),
    [
        ((PASSED,), FAIL_NEW, "pass"), ((FAILED,), GPU, "fail"), ((FAILED, INCONCLUSIVE), GPU, "fail"),
        ((HELD,), GPU, "pass"), ((HELD, IMPROVED, NEW, GAP), GPU, "pass"), ((HELD, REGRESSED), GPU, "fail"),
        ((INVALID,), GPU, "fail"), ((INCONCLUSIVE, HELD), GPU, "skip"), ((INCONCLUSIVE, REGRESSED), GPU, "fail"),
        ((NOT_MEASURED,), GPU, "skip"), ((NOT_MEASURED,), STRICT, "skip"), ((NOT_MEASURED,), COMPLETE, "fail"),
        ((INCONCLUSIVE,), STRICT, "fail"), ((INCONCLUSIVE,), COMPLETE, "skip"),
        ((NEW,), FAIL_NEW, "fail"), ((GAP, NEW), FAIL_NEW, "fail"),
        ((), GPU, "fail"),
    ],
)  # fmt: skip
def test_what_becomes_of_the_test(outcomes, policy, expected):
    assert delivery(verdicts_of(*outcomes), policy=policy) == expected


@pytest.mark.parametrize(
    ("outcomes", "policy", "other_failures", "status"),
    [
        ((), GPU, False, 0), ((HELD, NEW, GAP, IMPROVED, INCONCLUSIVE), GPU, False, 0),
        ((PASSED,), FAIL_NEW, False, 0), ((FAILED, INVALID), STRICT, False, 1),
        ((REGRESSED, INVALID), GPU, False, 1), ((HELD,), GPU, True, 1), ((INVALID, INCONCLUSIVE), STRICT, False, 10),
        ((INCONCLUSIVE, NEW), dataclasses.replace(STRICT, fail_on_new=True), False, 11),
        ((NOT_MEASURED, NEW), GPU, False, 0), ((NOT_MEASURED,), COMPLETE, False, 11),
        ((NEW,), FAIL_NEW, False, 12), ((INVALID, NEW), FAIL_NEW, True, 1),
    ],
)  # fmt: skip
def test_exit_status(outcomes, policy, other_failures, status):
    assert exit_status(outcomes, policy=policy, other_failures=other_failures) == status


@pytest.mark.parametrize("name", NAMES)
def test_a_tolerance_of_a_case_takes_the_place_of_the_usual_one(name):
    found = Policy.of(Settings(), device_kind="cuda", overrides=[Override(name, 0.123, "a reason", "somebody")])
    usual, fields = Policy.of(Settings(), device_kind="cuda"), OF_TOLERANCE[name]
    assert {field: getattr(found, field) for field in fields} == dict.fromkeys(fields, 0.123)
    assert dataclasses.replace(found, **{field: getattr(usual, field) for field in fields}) == usual


def test_policy_of_the_command_line():
    settings = Settings(processes=5, min_effect=0.03, fail_on=frozenset({"inconclusive", "new"}))
    assert Policy.of(settings, device_kind="cpu") == Policy(
        on_cpu=True,
        processes=5,
        max_processes=5,
        max_pairs=20,
        min_effect=0.03,
        fail_on_new=True,
        fail_on_inconclusive=True,
    )
    assert Policy.of(settings, device_kind="cuda").max_processes == 20
    found = Policy.of(Settings(max_processes=7), device_kind="cuda", cases=4)
    assert found == Policy(max_processes=7, max_pairs=7, cases=4)
    assert Policy.of(Settings(in_process=True), device_kind="cpu").analyses.counts == (3,)


def test_of_many_cases_each_may_be_wrong_less_often():
    assert [Policy(cases=cases).error_rate for cases in (1, 5, 50)] == pytest.approx([0.01, 0.01, 0.001])
    near = measurement(10.4, 10.4, 10.4)
    days = stored(*(session(*[ms] * 3) for ms in (10, 10.05, 9.95, 10.05, 9.95)))
    (one, *_), (many, *_) = (judge(near, days, policy=Policy(cases=cases)) for cases in (1, 200))
    assert (one.outcome, many.outcome) == (REGRESSED, HELD)
