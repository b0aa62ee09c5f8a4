"""Which slowdowns each process times."""

from __future__ import annotations

from collections import Counter

import pytest

from pytest_sdperf.plugin.selftest.schedule import CPU_EFFECTS, EFFECTS, GROUP, effects, slowdowns


def test_on_a_gpu_every_process_times_every_slowdown_and_none_is_always_first():
    found = [slowdowns(number, on_cpu=False) for number in range(20)]
    assert all(sorted(one) == [0.0, *EFFECTS] for one in found)
    for place in range(5):
        assert set(Counter(one[place] for one in found).values()) == {4}


def test_on_a_cpu_four_in_a_row_time_one_slowdown_beside_the_calls_as_they_are():
    found = [slowdowns(number, on_cpu=True) for number in range(GROUP * len(CPU_EFFECTS))]
    assert all(len(one) == 2 and 0.0 in one for one in found)
    groups = [{max(one) for one in found[start : start + GROUP]} for start in range(0, len(found), GROUP)]
    assert groups == [{effect} for effect in CPU_EFFECTS]


@pytest.mark.parametrize("group", range(4))
def test_in_a_group_both_sides_of_a_b_b_a_time_it_first_as_often_as_last(group):
    a, b, other_b, other_a = (slowdowns(GROUP * group + place, on_cpu=True) for place in range(GROUP))
    assert a[0] != other_a[0]
    assert b[0] != other_b[0]


def test_the_slowdowns_of_a_kind_of_device():
    assert effects(on_cpu=False) == (0.02, 0.03, 0.05, 0.10)
    assert effects(on_cpu=True) == (0.02, 0.03, 0.05, 0.10, 0.20, 0.50)
