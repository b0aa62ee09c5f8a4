"""The manual's page and the README say of the faults what the catalogue holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planted_runs import WHOLE

from pytest_sdperf import cli
from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import Fault, FaultStage

ALL = tuple(known.FAULTS.values())
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def row(fault: Fault) -> str:
    code = f" `{fault.found.code}`" if fault.found.code else ""
    needs = " (on a GPU)" if fault.on_gpu else " (against a baseline)" if fault.against_baseline else ""
    return f"| `{fault.name}` | {fault.about} | `test_{fault.found.by}`{needs} | {fault.found.verdict}{code} |"


def table(area: str) -> list[str]:
    """What the page must hold of an area; `python -c "import test_faults_page as page; page.write()"` writes it."""
    mine = [fault for fault in ALL if fault.area == area]
    head = ["| name | what is wrong | found by | as |", "|---|---|---|---|"]
    return [f"## {area.capitalize()}: {len(mine)}", "", *head, *map(row, mine)]


def write() -> None:
    opening = PAGE[: PAGE.index("\n## Graph")]
    text = "\n\n".join("\n".join(table(area)) for area in known.AREAS)
    (ROOT / "docs" / "faults.md").write_text(f"{opening}\n{text}\n", encoding="utf-8")


@pytest.mark.parametrize("area", known.AREAS)
def test_the_page_has_every_fault(area):
    assert "\n".join(table(area)) in PAGE


def test_the_readme_states_the_score():
    graphs = [fault for fault in ALL if fault.place is FaultStage.GRAPH and fault.found.by == "agreement"]
    assert {fault.name for fault in WHOLE} | {fault.name for fault in graphs} == set(known.FAULTS)
    both = len({fault.name for fault in WHOLE} & {fault.name for fault in graphs})
    score = (
        f"{len(ALL)} of {len(ALL)} planted faults are found: {len(WHOLE)} in whole runs, and {len(graphs)} of fused "
        f"graphs in comparisons ({both} in both)"
    )
    assert score in " ".join(README.split())


def test_the_readme_plants_a_fault_that_exists():
    (name,) = set(re.findall(r"--plant=([a-z-]+)", README))
    assert name in known.FAULTS
    assert f"pytest suites/test_{known.get(name).found.by}.py {known.get(name).options} --plant={name}" in README


def test_the_command_lists_every_fault(capsys):
    assert cli.main(["faults"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{len(ALL)} faults; `sdperf faults NAME` says how one is found"
    assert [line.strip() for line in lines if line.startswith("  ")] == [f"{one.name}: {one.about}" for one in ALL]


def test_the_command_says_how_one_is_found(capsys):
    assert cli.main(["faults", "runtime-out-of-memory"]) == 0
    fault = known.get("runtime-out-of-memory")
    assert capsys.readouterr().out.splitlines() == [
        "runtime-out-of-memory: A build that fitted into memory no longer does.",
        "goes into the loaded component, in its worker process",
        "is found as REGRESSED [oom-instead-of-number], exit status 1; # is a number, ... any text:",
        f"  {fault.found.words}",
        "type:",
        f"  {fault.preparation}",
        f"  {fault.command}",
    ]


def test_the_command_says_what_needs_a_gpu(capsys):
    assert cli.main(["faults", "environment-shared-with-others"]) == 0
    assert "needs a GPU: only its driver tells such a thing" in capsys.readouterr().out.splitlines()


def test_the_command_refuses_a_fault_that_does_not_exist(capsys):
    assert cli.main(["faults", "xyz"]) == 4
    assert capsys.readouterr().err == f"ERROR: unknown fault 'xyz'. Type `sdperf faults` to see all {len(ALL)}.\n"
