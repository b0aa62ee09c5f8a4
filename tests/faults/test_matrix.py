"""Every fault of the catalogue is planted into a real run and found as it must be; its healthy twin passes.

Suites, model, workers and engines are those that a newcomer gets: each run is the command that `sdperf faults` prints.
Faults of the UNet's fused graph take seconds each to build: `tests/fusing/test_planted_faults.py` finds all of them in
one process, and one of them stands for the others here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import FAILED, REFUSED, UNUSED, Fault, Place

ROOT = Path(__file__).parents[2]
STANDS_FOR_THE_UNET = "graph-query-and-key-exchanged"
QUICK = {
    "graph-causal-mask-lost", "weights-norms-reset", "numerics-one-percent-high", "runtime-error-swallowed",
    "runtime-answers-to-first-inputs", "environment-slowed-down-meanwhile", "harness-worker-aborts",
    "harness-baseline-of-zero",
}  # fmt: skip
ALL = tuple(known.FAULTS.values())


def is_whole(fault: Fault) -> bool:
    """Whether a fault is planted into a whole run here."""
    return fault.place is not Place.GRAPH or fault.component != "unet" or fault.name == STANDS_FOR_THE_UNET


def parameters(found: dict[str, list[Fault]]) -> list[object]:
    """Return one parameter for each; slow where none of its faults is quick."""
    return [
        pytest.param(faults[0], id=name, marks=() if QUICK & {fault.name for fault in faults} else pytest.mark.slow)
        for name, faults in found.items()
    ]


def twins() -> dict[str, list[Fault]]:
    """Return the faults by the command that they have in common."""
    found: dict[str, list[Fault]] = {}
    for fault in filter(is_whole, ALL):
        found.setdefault(f"{fault.found.by} {fault.options}", []).append(fault)
    return found


WHOLE = {fault.name: [fault] for fault in ALL if is_whole(fault)}


@pytest.fixture(scope="session")
def recorded() -> set[str]:
    """The commands that have recorded a healthy baseline."""
    return set()


@pytest.fixture(scope="session")
def score() -> dict[str, bool]:
    """Name of each fault that was planted -> whether it was found."""
    return {}


@pytest.fixture
def prepare(type_in, recorded):
    def once(fault: Fault) -> None:
        if fault.preparation and fault.preparation not in recorded:
            assert type_in(fault.preparation).ret == 0
            recorded.add(fault.preparation)

    return once


def said(fault: Fault) -> re.Pattern[str]:
    """Return what the output must hold: the words of the fault, whole, with the verdict before and the code behind."""
    found = fault.found
    before = {UNUSED: "", REFUSED: "ERROR: "}.get(found.verdict, f"{found.verdict}: ")
    before = "" if (found.by, found.verdict) == ("agreement", FAILED) else before  # no verdict says it
    behind = rf"\s+\[{found.code}\]" if before.startswith(found.verdict) else ""
    return re.compile(rf"^{before}{found.pattern.pattern}{behind}$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("fault", parameters(WHOLE))
def test_a_planted_fault_is_found(fault, type_in, prepare, score):
    score[fault.name] = False
    prepare(fault)
    result = type_in(fault.command)
    text = f"{result.stdout.str()}\n{result.stderr.str()}"
    assert said(fault).search(text)
    assert result.ret == fault.found.status
    if fault.found.verdict != REFUSED:
        assert f"\nsdperf: PLANTED {fault.name}: {fault.about}\n" in text
        code = f" [{fault.found.code}]" if fault.found.code else ""
        told = rf"PLANTED {fault.name}, and it was found( by \d+ tests?)?: {re.escape(fault.found.verdict + code)}\."
        assert re.search(told, " ".join(text.split()))
    score[fault.name] = True


def test_the_score_is_that_of_the_readme(score):
    """The README counts every whole run; where some were deselected, those that ran are counted."""
    planted, found = len(score), sum(score.values())
    told = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"planted faults are found: {len(WHOLE) - planted + found} in whole runs" in told


@pytest.mark.parametrize("fault", parameters(twins()))
def test_the_same_run_without_a_fault_passes(fault, type_in, prepare):
    """It comes after the faults and shares their cache: what was planted into it would show."""
    prepare(fault)
    result = type_in(fault.command.rpartition(" --plant=")[0])
    assert result.ret == 0
    assert "PLANTED" not in result.stdout.str()


def test_nothing_of_a_planted_run_is_kept(suites_folder, type_in):
    fault = known.get("harness-time-of-zero")
    state = suites_folder / "state"

    def kept() -> set[Path]:
        return set(state.rglob("*.json"))

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
    assert len(known.FAULTS) == len(ALL) >= 40
    areas = [fault.area for fault in ALL]
    assert set(areas) == set(known.AREAS)
    assert min(areas.count(area) for area in known.AREAS) >= 5
    assert set(WHOLE) >= QUICK
