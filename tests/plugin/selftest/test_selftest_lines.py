"""The report of a self-test, read whole: no number says more than its comparisons show."""

from __future__ import annotations

import pytest
from selftest_scenes import GPU_CASE, drawn_case, drawn_run

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.plugin.selftest.limits import InForce
from pytest_sdperf.plugin.selftest.noise import ModelNoise
from pytest_sdperf.plugin.selftest.power import Simulation
from pytest_sdperf.plugin.selftest.records import RuleCounts, SelfTests
from pytest_sdperf.plugin.selftest.table import selftest_lines

STILL = ModelNoise(day=0.0, process=0.0, drift=0.0, bad=0.0)


@pytest.fixture(autouse=True)
def few_trials(monkeypatch):
    monkeypatch.setattr(Simulation.__init__, "__defaults__", (2, 1))


def lines(tested, width=100):
    in_force = InForce(Policy(), Policy())
    return [line.text for line in selftest_lines(tested, device="NVIDIA H200 (h200)", in_force=in_force, width=width)]


def smallest(*rows, runs=1):
    """Return what is said of the smallest slowdown and what comes next; nothing in these runs moves."""
    drawn = tuple(drawn_run(STILL, count=68, seed=1 + number) for number in range(runs))
    told = lines(SelfTests(case=GPU_CASE, runs=drawn, rows=rows), width=300)
    return [line for line in told if line.startswith(("smallest", "next"))]


def pairs(effect, found, comparisons):
    return RuleCounts("pairs", 0.02, effect, comparisons, found, 48)


SIMULATED = [
    "smallest slowdown found in 95 % by 2 stored sessions: no comparison yet; +2.5 % by simulation",
    "smallest slowdown found in 95 % by 5 stored sessions: no comparison yet; +2.5 % by simulation",
]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([pairs(0.02, 5, 5), pairs(0.03, 7, 7)], "too few comparisons to tell (+2 % in 5 of 5)"),
        ([pairs(0.02, 0, 5), pairs(0.03, 367, 367)], "too few comparisons to tell (+3 % in 367 of 367)"),
        ([pairs(0.02, 0, 5), pairs(0.03, 368, 368), pairs(0.05, 7, 7)], "+3 % of those injected"),
        ([pairs(0.05, 6, 7), pairs(0.10, 6, 7)], "too few comparisons to tell (+10 % in 6 of 7)"),
        ([pairs(0.05, 2, 7), pairs(0.10, 3, 7)], "none of those injected"),
        ([pairs(0.0, 0, 7)], "no comparison yet"),
    ],
)
def test_what_was_found_says_no_more_than_its_interval(rows, told):
    said = smallest(*rows)[:-1]
    assert said == [f"smallest slowdown found in 99 % by A/B in pairs: {told}; +2 % by simulation", *SIMULATED]


def test_what_comes_next_says_what_another_run_adds():
    rows = pairs(0.0, 0, 7), pairs(0.02, 5, 5)
    assert smallest(*rows)[-1] == (
        "next       the same command goes on where this run ended. 68 processes more add about 5 to 7 comparisons to "
        "a row, and it takes 368 of 368 to show 99 % and 72 of 72 to show 95 %; runs of several days tell how days "
        "differ"
    )
    assert smallest(pairs(0.0, 0, 14), pairs(0.02, 14, 14), runs=2)[-1] == (
        "next       the same command goes on where this run ended. 68 processes more add about 7 comparisons to "
        "a row, and it takes 368 of 368 to show 99 % and 72 of 72 to show 95 %"
    )


def test_the_head_gives_the_latency_and_each_number_once():
    assert lines(drawn_case(drawn_run(STILL, count=12)))[:8] == [
        "device     NVIDIA H200 (h200)",
        "case       sd15 unet, ort-cuda at bias-add, batch 1, 512x512",
        "subject    onnxruntime 1.32.0",
        "runs       1 run on 1 day: 12 processes",
        "latency    20.0 ms, median of 12 processes",
        "injected   +2 % was 2.00 %, +3 % was 3.00 %, +5 % was 5.00 %, +10 % was 10.00 %",
        "noise      standard deviation of processes 0.00 % (the farthest 0.00 %), runs not known from one of",
        "           them; drift over 24 processes +0.00 %",
    ]
    both = drawn_case(drawn_run(STILL, count=12), drawn_run(STILL, count=9, seed=2, slower=0.1, injected=1.01))
    assert lines(both)[3:6] == [
        "runs       2 runs on 2 days: 12, 9 processes, 21 in all",
        "latency    22.0 ms, median of 9 processes of the last run",
        "injected   +2 % was 2.00 to 2.02 %, +3 % was 3.00 to 3.03 %, +5 % was 5.00 to 5.05 %, +10 % was",
    ]
