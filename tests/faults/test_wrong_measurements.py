"""Every fault that makes a measurement wrong is found in a run of its suite; without it the run passes."""

from __future__ import annotations

import pytest
from planted_runs import assert_found, assert_passes_without, healthy, parameters

SUITES = ("pipelines",)


@pytest.mark.parametrize("fault", parameters(*SUITES))
def test_a_planted_fault_is_found(fault, type_in, prepare):
    prepare(fault)
    assert_found(fault, type_in)


@pytest.mark.parametrize("fault", healthy(*SUITES))
def test_the_same_run_without_a_fault_passes(fault, type_in, prepare):
    """It comes after the faults and shares their cache: what was planted into it would show."""
    prepare(fault)
    assert_passes_without(fault, type_in)
