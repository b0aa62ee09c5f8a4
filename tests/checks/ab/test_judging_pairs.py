"""What an A/B means: side B, judged by side A."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import case, failed, kernels, measurement, samples

from pytest_sdperf.checks.ab.pairs import judge_pairs, more_pairs
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.floor import Floor
from pytest_sdperf.core.values.outcomes import Outcome

GPU = Policy(max_processes=12)
CPU = Policy(max_processes=12, on_cpu=True)
PASSED, FAILED = Outcome.PASSED, Outcome.FAILED
HELD, IMPROVED, REGRESSED = Outcome.HELD, Outcome.IMPROVED, Outcome.REGRESSED
INCONCLUSIVE, INVALID = Outcome.INCONCLUSIVE, Outcome.INVALID
NEXT = {"onnxruntime": "1.32.0"}
OOM = failed("oom", "no room")
TWO = measurement(10.0, 10.01)
SIX = (10.0, 10.1, 9.9, 10.1, 9.9, 10.0)


def pairs(a, b, **fields):
    return Pairs(a, b, **fields)


def of(factor, times=SIX):
    return measurement(*(factor * time for time in times), subject=NEXT)


# Side A, side B, policy -> outcome and code
TABLE = [
    (TWO, measurement(10.0, 10.02), GPU, HELD, "pairs-same"),
    (TWO, measurement(12.0, 12.01), GPU, REGRESSED, "pairs-slower"),
    (TWO, measurement(8.0, 8.01), GPU, IMPROVED, "pairs-faster"),
    (TWO, measurement(10.15, 10.5), GPU, INCONCLUSIVE, "pairs-too-noisy"),
    (measurement(*SIX), of(1.03), GPU, REGRESSED, "pairs-slower"),
    (measurement(*SIX), of(1.01, SIX[::-1]), GPU, INCONCLUSIVE, "pairs-too-noisy"),
    # a CPU: 30 % counts, less is said
    (measurement(*SIX), of(1.35), CPU, REGRESSED, "pairs-slower"),
    (measurement(*SIX), of(1.10), CPU, INCONCLUSIVE, "pairs-small-on-cpu"),
    (measurement(*SIX), of(0.90), CPU, HELD, "pairs-same"),
    (measurement(*SIX), of(1.10), dataclasses.replace(CPU, cpu_min_effect=0.02), REGRESSED, "pairs-slower"),
    # out of memory is a value
    (OOM, OOM, GPU, HELD, "oom-on-both-sides"),
    (measurement(10.0), OOM, GPU, REGRESSED, "oom-instead-of-number"),
    (OOM, measurement(10.0), GPU, IMPROVED, "number-instead-of-oom"),
    # not fit to be judged
    (failed("crash", "it died"), measurement(10.0), GPU, INVALID, "worker-crash"),
    (TWO, failed("timeout", "no answer"), GPU, INVALID, "worker-timeout"),
    (TWO, measurement(10.0), GPU, INVALID, "samples-missing"),
    (TWO, measurement(10.0, 0.0), GPU, INVALID, "latency-not-positive"),
    (measurement(10.0, 10.0, health=("The GPU is shared.",)), TWO, GPU, INVALID, "machine-not-fit"),
]


@pytest.mark.parametrize(("a", "b", "policy", "outcome", "code"), TABLE)
def test_table(a, b, policy, outcome, code):
    verdict, *_ = judge_pairs(pairs(a, b), policy=policy)
    assert (verdict.outcome, verdict.code) == (outcome, code)


def test_more_pairs_are_measured_while_it_is_open():
    analyses = GPU.pair_analyses
    assert analyses.counts == (2, 4, 6, 12)
    assert more_pairs(pairs(TWO, measurement(12.0, 12.01)), policy=GPU) == 0
    assert more_pairs(pairs(TWO, measurement(10.15, 10.5)), policy=GPU) == 2
    assert more_pairs(pairs(measurement(*SIX), of(1.01, SIX[::-1])), policy=GPU) == 6
    noisy = measurement(*[9.0, 11.0] * 6)
    assert more_pairs(pairs(noisy, measurement(*[11.0, 9.0] * 6)), policy=GPU) == 0


@pytest.mark.parametrize("b", [OOM, failed("crash", "it died"), measurement(10.0, -1.0)])
def test_nothing_more_is_measured_of_what_cannot_be_judged(b):
    assert more_pairs(pairs(TWO, b), policy=GPU) == 0


def sentence(a, b, policy=GPU, **fields):
    verdict, *_ = judge_pairs(pairs(a, b, **fields), policy=policy)
    return verdict.sentence


def test_sentences():
    six = "95 % interval {} to {}, 6 pairs, permutation p {}"
    assert sentence(measurement(*SIX), of(1.35)) == (
        f"UNet latency of B 13.5 ms is 35 % above A's 10.0 ms ({six.format('+35 %', '+35 %', 0.016)})."
    )
    assert sentence(measurement(*SIX), of(0.80)) == (
        f"UNet latency of B 8.00 ms is 20 % below A's 10.0 ms ({six.format('-20 %', '-20 %', 0.016)})."
    )
    assert sentence(measurement(*SIX), of(1.0)) == (
        f"UNet latency of B 10.0 ms is equal to A's 10.0 ms, no change of 2 % ({six.format('0.0 %', '0.0 %', 1)})."
    )
    assert sentence(measurement(*SIX), of(1.10), CPU) == (
        f"UNet latency of B 11.0 ms is 10 % above A's 10.0 ms ({six.format('+10 %', '+10 %', 0.016)}), but on a CPU "
        "only effects above 30 % fail."
    )
    assert sentence(TWO, measurement(10.15, 10.5)) == (
        "UNet latency of B 10.3 ms is 3.2 % above A's 10.0 ms (95 % interval -4.1 % to +11 %, 2 pairs, permutation p "
        "0.25): neither a change of 2 % nor its absence is certain."
    )
    assert sentence(OOM, OOM) == "UNet latency is OOM on both sides."
    assert sentence(measurement(10.0), OOM) == (
        "UNet latency of B is OOM: the device ran out of memory where A took 10.0 ms."
    )
    assert sentence(OOM, measurement(10.0)) == (
        "UNet latency of A is OOM: the device ran out of memory where B takes 10.0 ms."
    )
    assert sentence(TWO, failed("crash", "it died")) == "Side B: It died. It wrote nothing to stderr."
    assert sentence(TWO, measurement(10.0)) == "Side B: UNet was measured by 1 process instead of 2."
    whole = case(component="pipeline", steps=4, scheduler="ddim")
    four, five = (measurement(10.0, 10.0, case=whole, calls=calls) for calls in (4, 5))
    assert sentence(four, five) == "Side A made 4 UNet calls and side B 5, so it is not the same work."


def test_both_sides_are_named_by_options_and_versions():
    a = measurement(10.0, 10.0, case=case(engine_options=(("threads", "2"),)), subject={"onnxruntime": "1.31.1"})
    b = measurement(10.0, 10.0, case=case(optimization="fp32"), subject=NEXT)
    verdict, *_ = judge_pairs(pairs(a, b, pythons=("", "/venvs/next/bin/python")), policy=GPU)
    assert verdict.details == (
        "A: ort-cpu:threads=2 at fp16, onnxruntime 1.31.1",
        "B: ort-cpu at fp32, onnxruntime 1.32.0, under /venvs/next/bin/python; each with its own build",
    )
    verdict, *_ = judge_pairs(pairs(a, b, shared=True), policy=GPU)
    assert verdict.details[1] == "B: ort-cpu at fp32, onnxruntime 1.32.0; one build for both"


@pytest.mark.parametrize(
    ("fields", "policy", "outcome", "code", "sentence"),
    [
        (({}, {"first": 505}), GPU, HELD, "pairs-same-memory",
         "UNet first-run memory of B 505 MB is 1.0 % above A's 500 MB (changes up to 10 MB do not count)."),
        (({}, {"first": 520}), GPU, REGRESSED, "pairs-more-memory",
         "UNet first-run memory of B 520 MB is 4.0 % above A's 500 MB (changes up to 10 MB do not count)."),
        (({}, {"first": 480}), GPU, IMPROVED, "pairs-less-memory",
         "UNet first-run memory of B 480 MB is 4.0 % below A's 500 MB (changes up to 10 MB do not count)."),
        (({"source": "host"}, {"source": "host", "first": 540}), CPU, HELD, "pairs-same-memory",
         "UNet first-run memory of B 540 MB is 8.0 % above A's 500 MB (changes up to 50 MB do not count)."),
        (({}, {"first": None}), GPU, INVALID, "memory-missing",
         "UNet first-run memory of B or of A is missing from a sample."),
        (({"first": None}, {}), CPU, INVALID, "memory-missing",
         "UNet first-run memory of B or of A is missing from a sample."),
        (({}, {"source": "host"}), GPU, INVALID, "memory-source-changed",
         "UNet first-run memory of B cannot be compared with A's: device and host memory."),
    ],
)  # fmt: skip
def test_memory_is_compared_too(fields, policy, outcome, code, sentence):
    sides = (measurement(10.0, 10.0, **{"source": "device", **side}) for side in fields)
    _, verdict, *_ = judge_pairs(pairs(*sides), policy=policy)
    assert (verdict.outcome, verdict.code, verdict.sentence) == (outcome, code, sentence)
    assert (verdict.metric, verdict.details) == ("first-run-memory", ())


REPLAYED = {"cuda_graph": {"requested": True, "replayed": True, "changed_inputs": True}}
ONE_BY_ONE = {"cuda_graph": {"requested": True, "replayed": False}}
STALE = {"cuda_graph": {"requested": True, "replayed": True, "changed_inputs": False}}
PLACED = {
    "providers": ["CUDAExecutionProvider"],
    "placement": {"CUDAExecutionProvider": 8},
    "cpu_nodes": [],
    "cpu_node_count": 0,
    "memcpy_nodes": 0,
}
ON_CPU = {**PLACED, "cpu_nodes": ["Resize r"], "cpu_node_count": 1}
FLASH = {"attention": "flash", "kernels": kernels(attention_flash=32)}
MATH = {"attention": "flash", "kernels": kernels(attention_math=32)}
NO_KERNEL = "the CUDA provider has no kernel for that at its types, attributes or opset."
NOT_JUDGED = (
    "UNet latency and memory of B are not judged: side A, which they would be judged by, {}. Correct A, or compare "
    "with another one."
)
LAUNCHED = "its kernels are launched one by one."


def with_facts(of, facts):
    return dataclasses.replace(of, samples=tuple(dataclasses.replace(one, facts=facts) for one in of.samples))


# Facts as they have to be, facts that are wrong -> verdict, and its sentence
DEFECTS = [
    (REPLAYED, ONE_BY_ONE, (INVALID, "cuda-graph", "graph-not-replayed"),
     f"Side {{}}: A CUDA graph was asked for, but the UNet replays none: {LAUNCHED}"),
    (REPLAYED, STALE, (INVALID, "cuda-graph", "graph-stale"),
     "Side {}: The CUDA graph of the UNet gives wrong answers: its answers are those of other inputs."),
    (PLACED, ON_CPU, (FAILED, "placement", "cpu-nodes"),
     f"Side {{}}: 1 node of the UNet graph runs on the CPU: Resize r; {NO_KERNEL}"),
    (FLASH, MATH, (INVALID, "attention", "attention-absent"),
     "Side {}: The attention 'flash' that was asked for did not run: there ran attention-math 32."),
]  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("b_ms", [8.0, 10.0, 12.0])
@pytest.mark.parametrize("side", ["A", "B", "both"])
def test_the_runtime_report_of_either_side_is_judged_however_fast_it_is(side, b_ms, defect):
    fine, wrong, found, sentence = defect
    a, b = (measurement(time, time, source="device") for time in (10.0, b_ms))
    facts = [wrong if side in (name, "both") else fine for name in "AB"]
    first, *compared, one, two = judge_pairs(pairs(with_facts(a, facts[0]), with_facts(b, facts[1])), policy=GPU)
    assert (one.metric, two.metric) == (found[1], found[1])
    assert (one.sentence[:7], two.sentence[:7]) == ("Side A:", "Side B:")
    assert len(first.details) == 2
    if side == "B":
        code = {8.0: "pairs-faster", 10.0: "pairs-same", 12.0: "pairs-slower"}[b_ms]
        assert (first.code, len(compared)) == (code, 2)
        assert (one.outcome, two.outcome, two.code, two.sentence) == (PASSED, found[0], found[2], sentence.format("B"))
        return
    # Nothing is judged by a side A with a defect; it makes B no worse, and B's own defect no better.
    assert (first.outcome, first.code, compared) == (INVALID, "side-a-defect", [])
    assert first.sentence == NOT_JUDGED.format("has a defect of its own")
    assert (one.outcome, one.code, one.sentence) == (INVALID, found[2], sentence.format("A"))
    assert two.outcome is (found[0] if side == "both" else PASSED)


def test_nothing_more_is_measured_beside_a_side_a_with_a_defect():
    a, b = with_facts(TWO, ON_CPU), measurement(10.15, 10.5)
    assert more_pairs(pairs(a, b), policy=GPU) == 0
    assert more_pairs(pairs(with_facts(TWO, PLACED), with_facts(b, ON_CPU)), policy=GPU) == 2
    assert more_pairs(pairs(TWO, b), policy=GPU, a_disagrees=True) == 0


def test_no_memory_is_judged_by_a_side_a_with_a_defect_either():
    one = with_facts(measurement(10.0), ON_CPU)
    first, *rest = judge_pairs(pairs(one, OOM), policy=GPU)
    assert (first.outcome, first.code, [verdict.code for verdict in rest]) == (INVALID, "side-a-defect", ["cpu-nodes"])


def test_nothing_is_judged_by_a_side_a_that_disagrees_with_its_reference():
    (verdict,) = judge_pairs(pairs(TWO, measurement(12.0, 12.01)), policy=GPU, a_disagrees=True)
    assert (verdict.outcome, verdict.code) == (INVALID, "side-a-defect")
    assert verdict.sentence == NOT_JUDGED.format("disagrees with its reference")
    assert len(verdict.details) == 2


def test_a_side_below_the_physical_floor_is_no_improvement():
    floor = Floor(1e12, 1e11, 1e9, 0.009, "data sheet", 0.009)
    a, b = (measurement(time, time, source="device", floor=floor) for time in (10.0, 8.0))
    (verdict,) = judge_pairs(pairs(a, b), policy=GPU)
    assert (verdict.outcome, verdict.code) == (INVALID, "below-floor")
    assert verdict.sentence == (
        "Side B: UNet latency 8.00 ms is below the physical floor of 9.00 ms: this device cannot do 1.00 TFLOP and "
        "read 1.00 GB in less. Likely causes: fewer steps than asked for, guidance left out, outputs taken from a "
        "cache, a lower precision than named, or times taken before the device had finished."
    )


def test_the_side_that_did_not_run_out_of_memory_is_judged_all_the_same():
    one = measurement(8.0, source="device")
    fits, stale = judge_pairs(pairs(OOM, with_facts(one, STALE)), policy=GPU)
    assert (fits.code, stale.code) == ("number-instead-of-oom", "graph-stale")
    below = dataclasses.replace(one, floor=Floor(1e12, 1e11, 1e9, 0.009, "data sheet", 0.009))
    assert [verdict.code for verdict in judge_pairs(pairs(OOM, below), policy=GPU)] == ["below-floor"]


def test_a_cpu_that_cannot_tell_memory_is_judged_by_time_alone():
    blind = measurement(10.0, 10.0, first=None, second=None)
    assert [verdict.metric for verdict in judge_pairs(pairs(blind, blind), policy=CPU)] == ["latency"]


def test_pairs_travel_as_json():
    both = pairs(measurement(*SIX), OOM, pythons=("", "/venvs/next/bin/python"), shared=True)
    again = convert(to_json(both), Pairs)
    assert again == both
    assert (again.count, len(samples(*SIX))) == (0, 6)
