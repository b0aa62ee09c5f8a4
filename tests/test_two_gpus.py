"""The arithmetic of `benchmarks/two_gpus.py`."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
from sample_values import case, measurement

from pytest_sdperf.core.values.lock_wait import LockWait


@pytest.fixture(scope="module")
def program():
    path = Path(__file__).parent.parent / "benchmarks" / "two_gpus.py"
    spec = importlib.util.spec_from_file_location("two_gpus", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["two_gpus"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("turns", "both", "some"),
    [
        ([], 0, 0),
        ([(0, 0, 10), (1, 20, 30)], 0, 20),
        ([(0, 0, 10), (1, 5, 15)], 5, 15),
        ([(0, 0, 10), (0, 10, 20), (1, 8, 12)], 4, 20),
        ([(0, 0, 10), (0, 2, 8)], 0, 10),
        ([(0, 0, 10), (1, 0, 10), (2, 0, 10)], 10, 10),
    ],
)
def test_for_how_long_two_measured_at_once(program, turns, both, some):
    assert program.overlap([LockWait(*turn) for turn in turns]) == (both, some)


def test_a_case_is_compared_with_itself_on_the_same_card(program):
    def on(place, batch, *times_ms):
        measured = measurement(*times_ms, case=case(batch_size=batch))
        return dataclasses.replace(measured, turn=LockWait(place, 0, 1))

    alone = [[on(0, 1, 10, 10, 10), on(0, 2, 20, 20, 20)], [on(0, 1, 11, 11, 11), on(0, 2, 22, 22, 22)]]
    found = list(program.compared(alone, [on(1, 1, 12.1, 12.1, 12.1), on(0, 2, 20, 20, 20), on(0, 4, 1, 1, 1)]))
    assert [(one.position, round(one.ratio, 6)) for one in found] == [(1, 1.1), (0, 1.0)]
