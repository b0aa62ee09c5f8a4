"""The catalogue of faults as a matrix; nothing of a planted run is kept, and one that is not found fails its run."""

from __future__ import annotations

import pytest
import test_wrong_measurements
import test_wrong_results
from planted_runs import QUICK, WHOLE

from pytest_sdperf.faults import known


def test_nothing_of_a_planted_run_is_kept(suites_folder, type_in):
    fault = known.get("harness-time-of-zero")
    state = suites_folder / "state"

    def kept():
        return {path for path in state.rglob("*.json") if path.parent.name != "locks"}

    before = kept()
    assert type_in(fault.command).ret == 10
    assert kept() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Not saving anything, no benchmarks have been run")
def test_pytest_benchmark_is_told_nothing_of_a_planted_run(suites_folder, type_in):
    fault = known.get("harness-time-not-a-number")
    assert type_in(f"{fault.command} -p pytest_benchmark.plugin --benchmark-json=benchmarks.json").ret == 10
    assert not (suites_folder / "benchmarks.json").exists()


def test_a_fault_that_is_not_found_fails_its_run(type_in):
    text_encoder = known.get("numerics-one-percent-high").options
    result = type_in(f"pytest suites/test_agreement.py {text_encoder} --plant=weights-quantized")
    assert result.ret == 1
    result.assert_outcomes(passed=1)
    assert (
        "PLANTED weights-quantized, and nothing turned red: it must be FAILED [component]. Type `sdperf faults "
        "weights-quantized` to see how it is found."
    ) in " ".join(result.stdout.str().split())


def test_the_catalogue_is_a_matrix():
    assert len(known.FAULTS) >= 40
    areas = [fault.area for fault in known.FAULTS.values()]
    assert set(areas) == set(known.AREAS)
    assert min(areas.count(area) for area in known.AREAS) >= 5


def test_every_fault_has_its_run():
    suites = [*test_wrong_results.SUITES, *test_wrong_measurements.SUITES]
    assert {fault.found.by for fault in WHOLE} == set(suites)
    assert {fault.name for fault in WHOLE} >= QUICK
