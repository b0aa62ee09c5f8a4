"""Which slowdowns each process times."""

from __future__ import annotations

from collections import Counter

import pytest

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.plugin.selftest.rows import CPU_EFFECTS, effects, slowdowns


@pytest.mark.parametrize("on_cpu", [False, True])
def test_every_process_times_every_slowdown_and_none_is_always_first(on_cpu):
    every = [0.0, *effects(on_cpu=on_cpu)]
    found = [slowdowns(number, on_cpu=on_cpu) for number in range(4 * len(every))]
    assert all(sorted(one) == every for one in found)
    for place in range(len(every)):
        assert set(Counter(one[place] for one in found).values()) == {4}


def test_on_a_cpu_nothing_is_injected_that_could_not_fail():
    assert min(CPU_EFFECTS) > Policy(on_cpu=True).latency_effect
