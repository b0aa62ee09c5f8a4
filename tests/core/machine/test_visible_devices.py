from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.devices._visible import names_positions, visible

IDS = [("GPU-aa11",), ("GPU-bb22", "MIG-GPU-bb22/1/0"), ("GPU-bb33",)]


@pytest.mark.parametrize(
    ("value", "positions"),
    [
        (None, (0, 1, 2)),
        ("", ()),
        ("0,1,2", (0, 1, 2)),
        (" 2 , 0 ", (2, 0)),
        ("+1", (1,)),
        ("1gpu2,2ampere", (1, 2)),
        ("0,-1,1", (0,)),
        ("0,,1", (0,)),
        ("0,3,1", (0,)),
        ("0,1,0", ()),
        ("NoDevFiles", ()),
        ("GPU-bb22,GPU-aa", (1, 0)),
        ("gpu-BB33", (2,)),
        ("GPU-aa,GPU-bb", (0,)),
        ("GPU-aa,GPU-aa11", ()),
        ("MIG-GPU-bb22/1/0", (1,)),
        ("MIG-GPU-cc", ()),
        ("2,GPU-aa", (2, 0)),
    ],
)
def test_the_rules_of_the_cuda_runtime(value, positions):
    assert visible(IDS, value) == positions


def test_only_numbered_devices_have_positions():
    assert visible(IDS, "0,2", numbered=2) == (0,)
    assert visible(IDS, "GPU-bb33", numbered=2) == (2,)


ENTRIES = st.one_of(
    st.integers(-2, 5).map(str), st.sampled_from([name for ids in IDS for name in ids]), st.text("01aG-PU ", max_size=4)
)


@given(st.lists(ENTRIES).map(",".join))
def test_every_value_leaves_distinct_devices(value):
    positions = visible(IDS, value)
    assert len(set(positions)) == len(positions)
    assert set(positions) <= {0, 1, 2}


@given(st.permutations([0, 1, 2]), st.integers(0, 3))
def test_positions_and_identifiers_mean_the_same(order, count):
    chosen = order[:count]
    assert visible(IDS, ",".join(map(str, chosen))) == tuple(chosen)
    assert visible(IDS, ",".join(IDS[position][0] for position in chosen)) == tuple(chosen)


@pytest.mark.parametrize(
    ("value", "expected"), [(None, False), ("", False), ("-1", False), ("GPU-aa", False), ("0", True), (" 1,2", True)]
)
def test_whether_a_value_depends_on_the_order(value, expected):
    assert names_positions(value) is expected
