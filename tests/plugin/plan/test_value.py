from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sample_values import case

from pytest_sdperf.plugin.plan.wanted import PlannedCase, merged
from pytest_sdperf.plugin.time_budget import by_value

OPTIMIZATIONS = ("fp32", "fp16", "fmha", "group-norm")


def wanted(test, optimization="fp16", batch_size=4, **fields):
    return PlannedCase(
        f"{test} {optimization} {batch_size}", case(optimization=optimization, batch_size=batch_size, **fields), (test,)
    )


def order(*things):
    return [one.id for one in by_value([(one, one) for one in things], OPTIMIZATIONS)]


def test_what_is_right_comes_first_then_the_main_batch_the_last_optimization_and_the_others():
    assert order(
        wanted("speed", "fp32"),
        wanted("speed", "fp32", 1),
        wanted("speed", "fmha"),
        wanted("speed", "fmha", 1),
        wanted("agreement", "fmha", 1),
        wanted("counts", "fp16"),
    ) == [
        "agreement fmha 1",
        "counts fp16 4",
        "speed fmha 4",
        "speed fp32 4",
        "speed fmha 1",
        "speed fp32 1",
    ]


def test_registered_checks_are_no_speed_and_come_before_it():
    things = (wanted("speed", "fmha"), wanted("replay", "fmha"), wanted("pictures", "fp32"))
    assert order(*things) == ["replay fmha 4", "pictures fp32 4", "speed fmha 4"]


def test_the_last_optimization_is_that_of_each_engine():
    found = order(
        wanted("speed", "group-norm"),
        wanted("speed", "fp32", engine="torch"),
        wanted("speed", "fp16", engine="torch"),
        wanted("speed", "fmha"),
    )
    assert found == ["speed group-norm 4", "speed fp16 4", "speed fp32 4", "speed fmha 4"]


things = st.builds(
    wanted, st.sampled_from(["speed", "counts", "agreement"]), st.sampled_from(OPTIMIZATIONS), st.sampled_from([1, 8])
)


@given(st.lists(things))
def test_nothing_is_lost_and_among_equals_the_order_stays(given_things):
    pairs = list(enumerate(given_things))
    found = by_value(pairs, OPTIMIZATIONS)
    assert sorted(found) == list(range(len(pairs)))
    timed = ["speed" in given_things[i].tests for i in found]
    assert timed == sorted(timed)
    right = [i for i in found if "speed" not in given_things[i].tests]
    assert right == sorted(right)


def test_the_tests_of_one_case_are_one_entry():
    found = merged([wanted("agreement"), wanted("speed", "fp32"), wanted("speed")])
    assert [(one.case.optimization, one.tests) for one in found] == [
        ("fp16", ("agreement", "speed")),
        ("fp32", ("speed",)),
    ]
