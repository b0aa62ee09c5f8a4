"""The report of a self-test, read whole: no number says more than its comparisons show."""

from __future__ import annotations

import pytest
from selftest_scenes import GPU_CASE, Noise, drawn_case, drawn_run

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.plugin.selftest.records import RuleCounts, SelfTests
from pytest_sdperf.plugin.selftest.table import selftest_lines

STILL = Noise()


def lines(tested, width=100):
    told = selftest_lines(tested, device="NVIDIA H200 (h200)", policy=Policy(max_processes=12), width=width)
    return [line.text for line in told]


def smallest(*rows):
    """Return what is said of the smallest slowdown."""
    told = lines(SelfTests(case=GPU_CASE, runs=(drawn_run(count=68),), rows=rows), width=300)
    return [line for line in told if line.startswith("smallest")]


def pairs(effect, found, comparisons):
    return RuleCounts("pairs", 0.02, effect, comparisons, found, 48)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([pairs(0.02, 5, 5), pairs(0.03, 7, 7)], "none yet"),
        ([pairs(0.0, 368, 368), pairs(0.02, 0, 5), pairs(0.03, 367, 367)], "none yet"),
        ([pairs(0.02, 0, 5), pairs(0.03, 368, 368), pairs(0.05, 7, 7)], "+3 %"),
        ([pairs(0.03, 368, 368), pairs(0.05, 368, 368)], "+3 %"),
        ([pairs(0.0, 0, 7)], "none yet"),
    ],
)
def test_what_was_found_says_no_more_than_its_interval(rows, told):
    assert smallest(*rows) == [f"smallest slowdown surely found in 99 % by A/B in pairs: {told}"]


def test_each_row_says_what_was_counted_and_how_sure_that_is():
    tested = SelfTests(case=GPU_CASE, runs=(drawn_run(count=68),), rows=(pairs(0.0, 0, 7), pairs(0.03, 7, 7)))
    assert lines(tested)[8:] == [
        "| rule                   | slowdown | comparisons | found | rate  | 95 % interval   | processes |",
        "|------------------------|----------|-------------|-------|-------|-----------------|-----------|",
        "| A/B in pairs, from 2 % | none     | 7           | 0     | 0 %   | 0.0 to 41.0 %   | 48        |",
        "|                        | +3 %     | 7           | 7     | 100 % | 59.0 to 100.0 % | 48        |",
        "found: B was called slower; without a slowdown it was called slower or faster, which is a false",
        "alarm. No two comparisons of a row share a process. Rows share processes with each other, and",
        "comparisons of one run its day.",
        "",
        "smallest slowdown surely found in 99 % by A/B in pairs: none yet",
    ]


def test_without_a_comparison_it_says_how_many_processes_one_takes():
    assert lines(drawn_case(drawn_run(count=12)))[8:] == [
        "No comparison yet: one begins only where all processes are left that it may need, and in pairs these",
        "are 24 of one run.",
    ]


def test_noise_is_how_far_processes_are_from_the_middle_of_their_run():
    runs = [drawn_run(Noise(day=0.5, process=0.01), count=400, seed=seed) for seed in (1, 2)]
    (told,) = [line for line in lines(drawn_case(*runs)) if line.startswith("noise")]
    assert told == "noise      standard deviation of processes 0.98 % (the farthest 3.57 %)"
    (told,) = [line for line in lines(drawn_case(drawn_run(count=1))) if line.startswith("noise")]
    assert told == "noise      not known from one process"


def test_the_head_gives_the_latency_and_each_number_once():
    assert lines(drawn_case(drawn_run(STILL, count=12)))[:8] == [
        "device     NVIDIA H200 (h200)",
        "case       sd15 unet, ort-cuda at bias-add, batch 1, 512x512",
        "subject    onnxruntime 1.32.0",
        "runs       1 run on 1 day: 12 processes",
        "latency    20.0 ms, median of 12 processes",
        "injected   +2 % was 2.00 %, +3 % was 3.00 %, +5 % was 5.00 %, +10 % was 10.00 %",
        "noise      standard deviation of processes 0.00 % (the farthest 0.00 %)",
        "",
    ]
    both = drawn_case(drawn_run(STILL, count=12), drawn_run(STILL, count=9, seed=2, slower=0.1, injected=1.01))
    assert lines(both)[3:6] == [
        "runs       2 runs on 2 days: 12, 9 processes, 21 in all",
        "latency    22.0 ms, median of 9 processes of the last run",
        "injected   +2 % was 2.00 to 2.02 %, +3 % was 3.00 to 3.03 %, +5 % was 5.00 to 5.05 %, +10 % was",
    ]
