"""From which change on a CPU may fail, by what its self-test has shown."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from selftest_scenes import CPU_CASE, drawn_case, drawn_run

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, RULES
from pytest_sdperf.plugin.selftest.limits import InForce, Shown, next_effect, shown_by, shown_for, with_limit
from pytest_sdperf.plugin.selftest.records import RuleCounts

CPU = Policy(on_cpu=True)
TEXT = (
    "its self-test of 2026-11-02 raised no alarm in 80 comparisons of one build with itself, and found +5 % in 20 of 20"
)


def known(*rows, of=CPU_CASE):
    return msgspec.structs.replace(drawn_case(drawn_run(seed=2), case=of), rows=rows)


def pair_rows(limit, *, alarms=0, same=80, found=20, slowed=20):
    return (
        RuleCounts("pairs", limit, 0.0, same, alarms, 4 * same),
        RuleCounts("pairs", limit, next_effect(limit), slowed, found, 4 * slowed),
    )


def test_the_lowest_limit_without_an_alarm_at_which_the_next_slowdown_is_found():
    rows = [*pair_rows(0.30), *pair_rows(0.10), *pair_rows(0.03), *pair_rows(0.02, alarms=1)]
    assert shown_by(known(*rows), pairs=True) == Shown(0.03, TEXT)


@pytest.mark.parametrize(
    "rows",
    [
        (),
        pair_rows(0.03, alarms=1),
        pair_rows(0.03, same=71),  # 5.06 % of all may raise an alarm
        pair_rows(0.03, found=16, slowed=16),  # 79.4 % of all may be found
        pair_rows(0.03, found=18, slowed=20),
        pair_rows(0.03)[:1],
        pair_rows(0.03)[1:],
    ],
)
def test_too_little_shows_nothing(rows):
    assert shown_by(known(*rows), pairs=True) is None


def test_the_fewest_comparisons_that_show_something():
    assert shown_by(known(*pair_rows(0.03, same=72, found=17, slowed=17)), pairs=True) is not None


def stored_rows(name, **numbers):
    return tuple(msgspec.structs.replace(row, rule=name) for row in pair_rows(0.03, **numbers))


def test_of_stored_sessions_only_those_of_other_runs_tell_about_days():
    assert shown_by(known(*stored_rows("stored-2")), pairs=False) is None
    other = known(*stored_rows("stored-2"), *stored_rows("stored-2-other"))
    assert shown_by(other, pairs=False) == Shown(0.03, TEXT)
    assert shown_by(other, pairs=True) is None
    alarmed = known(*stored_rows("stored-5", alarms=1), *stored_rows("stored-2-other"))
    assert shown_by(alarmed, pairs=False) is None


def test_a_self_test_speaks_for_cases_of_its_engine_alone():
    all_of_them = [known(*pair_rows(0.03))]
    assert shown_for(dataclasses.replace(CPU_CASE, model="sdxl-thin", component="vae_decoder"), all_of_them, pairs=True)
    assert shown_for(dataclasses.replace(CPU_CASE, engine="torch"), all_of_them, pairs=True) is None
    assert shown_for(dataclasses.replace(CPU_CASE, engine_options=(("threads", "1"),)), all_of_them, pairs=True) is None
    assert shown_for(dataclasses.replace(CPU_CASE, component="pipeline"), all_of_them, pairs=True) is None


def test_a_case_has_the_limit_of_its_own_self_test_and_else_that_of_the_one_that_allows_least():
    other, third = (dataclasses.replace(CPU_CASE, model=model) for model in ("sdxl-thin", "sd21-thin"))
    both = [known(*pair_rows(0.03)), known(*pair_rows(0.10), of=other)]
    found = [shown_for(case, both, pairs=True) for case in (CPU_CASE, other, third)]
    assert [one.limit for one in found] == [0.03, 0.10, 0.10]
    begun = [*both, known(of=dataclasses.replace(CPU_CASE, batch_size=4))]
    assert shown_for(CPU_CASE, begun, pairs=True) == found[0]
    assert shown_for(third, begun, pairs=True) is None


def test_a_policy_takes_what_was_shown_and_says_so():
    policy = with_limit(CPU, Shown(0.03, TEXT))
    assert (policy.latency_effect, policy.self_test_passed) == (0.03, True)
    assert policy.why_small_passes == f"on this CPU only effects above 3 % fail: {TEXT}"
    assert policy.why_small_counts == f"; it counts from 3 % on: {TEXT}"
    assert with_limit(CPU, None) == CPU == with_limit(CPU, Shown(0.30, TEXT))
    assert CPU.why_small_passes == "on a CPU only effects above 30 % fail until the self-test has passed on it"
    assert CPU.why_small_counts == ""
    assert with_limit(Policy(), Shown(0.03, TEXT)) == Policy()


def test_the_minimum_effect_that_was_asked_for_is_never_undercut():
    policy = with_limit(Policy(on_cpu=True, min_effect=0.05), Shown(0.03, TEXT))
    assert policy.latency_effect == 0.05


def test_each_rule_has_the_limit_that_is_in_force_for_it():
    in_force = InForce(with_limit(CPU, Shown(0.03, TEXT)), CPU)
    rows = [*pair_rows(0.30), *pair_rows(0.03), *stored_rows("stored-2")]
    assert in_force.rows(PAIRS, rows) == {0.0: rows[2], 0.05: rows[3]}
    assert in_force.rows(RULES[1], rows) == {}
