"""Which processes serve which comparison, and what counts."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selftest_scenes import CPU_CASE, GPU_CASE, QUIET, Noise, drawn_case, drawn_run

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.selftest import rows as module
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, RULES, Judged
from pytest_sdperf.plugin.selftest.records import RuleCounts
from pytest_sdperf.plugin.selftest.rows import comparisons, not_injected, rows_of, stream_of, was_injected

GPU = Policy(max_processes=12)
CPU = Policy(on_cpu=True, max_processes=3, max_pairs=12)
STORED_2, STORED_2_OTHER = (
    next(rule for rule in RULES if rule.name == name) for name in ("stored-2", "stored-2-other")
)


def rows(*sessions, policy=GPU, case=GPU_CASE):
    return {(row.rule, row.limit, row.effect): row for row in rows_of(drawn_case(*sessions, case=case), policy=policy)}


def test_one_build_against_itself_raises_no_alarm_and_what_was_injected_is_found():
    found = rows(drawn_run(count=120), drawn_run(count=120, seed=2))
    for rule in ("pairs", "stored-2", "stored-5"):
        assert found[rule, 0.02, 0.0].found == 0
        assert found[rule, 0.02, 0.10].found == found[rule, 0.02, 0.10].comparisons >= 4


def test_a_build_that_differs_from_itself_raises_alarms():
    plain = drawn_run(count=120)
    times = tuple(time * (1.2 if place % 4 in (1, 2) else 1) for place, time in enumerate(plain.medians_s["0"]))
    faulty = with_times(plain, times)
    found = rows(faulty)
    assert found["pairs", 0.02, 0.0].found == found["pairs", 0.02, 0.0].comparisons > 10


def with_times(session, times):
    return msgspec.structs.replace(session, medians_s={**session.medians_s, "0": times})


def test_a_build_that_is_faster_than_itself_is_an_alarm_too():
    plain = drawn_run(count=120)
    times = tuple(time / (1.2 if place % 4 in (1, 2) else 1) for place, time in enumerate(plain.medians_s["0"]))
    assert rows(with_times(plain, times))["pairs", 0.02, 0.0].found > 10


def test_what_other_programs_explain_is_no_alarm():
    # Every second dozen of processes takes twice as long, because its threads wait half of the time.
    plain = drawn_run(count=240, on_cpu=True)
    shares = [0.5 if place // 12 % 2 else 0.0 for place in range(240)]
    times = tuple(time / (1 - share) for time, share in zip(plain.medians_s["0"], shares, strict=True))
    disturbed = with_times(plain, times)
    told = msgspec.structs.replace(disturbed, waited={"0": tuple(shares)})
    silent = msgspec.structs.replace(disturbed, waited={"0": (None,) * 240})
    of_cpu = {"case": CPU_CASE, "policy": CPU}
    assert rows(disturbed, **of_cpu)["stored-2", 0.30, 0.0].found > 5
    assert rows(silent, **of_cpu) == rows(disturbed, **of_cpu)
    assert rows(told, **of_cpu)["stored-2", 0.30, 0.0].found == 0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("effect", [0.0, 0.05])
def test_no_process_serves_two_comparisons_of_a_row(rule, effect, monkeypatch):
    sessions = [drawn_run(Noise(), count=60, seed=seed) for seed in range(1, 7)]
    taken = []

    def judge(self, baseline, take, case, *, policy):
        for _ in range(self.stored):
            taken.extend(sample.median_s for sample in baseline())
        taken.extend(take(slowed=True).median_s for _ in range(3))
        return Judged(Outcome.HELD, 3)

    marked = []
    for number, session in enumerate(sessions):
        names = {name: tuple(1000 * number + place + 1.0 for place in range(60)) for name in session.medians_s}
        marked.append(msgspec.structs.replace(session, medians_s=names))
    monkeypatch.setattr(module.JudgingRule, "judge", judge)
    found = list(comparisons(rule, marked, effect, GPU_CASE, policy=GPU))
    assert found
    assert len(taken) == len(set(taken)) == sum(processes for _, processes in found)


def test_a_comparison_begins_only_where_all_the_processes_are_left_that_it_may_need():
    assert len(list(comparisons(PAIRS, [drawn_run(count=23)], 0.0, GPU_CASE, policy=GPU))) == 0
    assert len(list(comparisons(PAIRS, [drawn_run(count=24)], 0.0, GPU_CASE, policy=GPU))) == 1
    assert len(list(comparisons(STORED_2, [drawn_run(count=17)], 0.0, GPU_CASE, policy=GPU))) == 0
    assert len(list(comparisons(STORED_2, [drawn_run(count=18)], 0.0, GPU_CASE, policy=GPU))) == 1


def test_stored_sessions_of_other_runs_need_as_many_other_runs():
    two = [drawn_run(seed=1), drawn_run(seed=2)]
    assert list(comparisons(STORED_2_OTHER, two, 0.0, GPU_CASE, policy=GPU)) == []
    found = list(comparisons(STORED_2_OTHER, [*two, drawn_run(seed=3)], 0.0, GPU_CASE, policy=GPU))
    assert len(found) >= 10
    assert {judged.outcome for judged, _ in found} == {Outcome.HELD}


def test_another_version_is_not_the_same_build():
    sessions = [drawn_run(seed=seed) for seed in (1, 2, 3)]
    assert ("stored-2-other", 0.02, 0.0) in rows(*sessions)
    assert ("stored-2-other", 0.02, 0.0) not in rows(*sessions[:2], drawn_run(seed=3, builds={"unet": "other"}))


def test_on_a_cpu_what_is_larger_than_its_limit_is_found():
    assert rows(drawn_run(count=60, on_cpu=True), policy=CPU, case=CPU_CASE) == {
        (rule, 0.3, effect): RuleCounts(rule, 0.3, effect, count, count if effect else 0, processes * count)
        for rule, count, processes in (("pairs", 10, 4), ("stored-2", 6, 9), ("stored-5", 3, 18))
        for effect in (0.0, 0.5, 1.0)
    }


def test_what_was_not_injected_is_not_missed():
    half = drawn_run(count=60, injected=0.5)
    assert not_injected([half]) == 4 * 60
    assert {effect for _, _, effect in rows(half)} == {0.0}
    assert stream_of(half, 0.05).left == 0
    assert stream_of(half, 0.0).left == 60


@pytest.mark.parametrize(
    ("asked", "obtained", "counts"),
    [(0.02, 0.0179, False), (0.02, 0.0181, True), (0.02, 0.0229, True), (0.02, 0.0231, False), (0.1, 0.112, False)],
)
def test_an_injection_counts_if_it_is_about_what_was_asked_for(asked, obtained, counts):
    assert was_injected(asked, obtained) == counts


@settings(max_examples=50)
@given(count=st.integers(0, 70), effect=st.sampled_from([0.0, 0.02, 0.10]), rule=st.sampled_from(RULES))
def test_whatever_ran_no_more_processes_are_used_than_there_were(count, effect, rule):
    sessions = [drawn_run(QUIET, count=count, seed=seed) for seed in (1, 2, 3)] if count else []
    policy = dataclasses.replace(GPU, max_pairs=4)
    used = sum(processes for _, processes in comparisons(rule, sessions, effect, GPU_CASE, policy=policy))
    assert used <= 3 * count
