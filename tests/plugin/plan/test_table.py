"""A plan as it is printed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from sample_values import case, session

from pytest_sdperf.plugin.plan.builds import PlannedStep
from pytest_sdperf.plugin.plan.costs import CaseCost
from pytest_sdperf.plugin.plan.recorded import Recorded
from pytest_sdperf.plugin.plan.table import cost_lines
from pytest_sdperf.plugin.plan.wanted import PlannedCase

THERE = SimpleNamespace(path=Path("entry"))


def step(kind, size_bytes=None, entry=None):
    return PlannedStep(kind, (kind, size_bytes), entry, size_bytes)


def cost(name, *tests, missing=(), steps=(), peak_mb=None, source="", **fields):
    recorded = Recorded(session(first=peak_mb), source) if peak_mb else Recorded()
    wanted = PlannedCase(name, case(engine="" if "counts" in tests else "ort-cpu"), tests)
    return CaseCost(wanted, steps=(*steps, *missing), missing=missing, recorded=recorded, **fields)


def table(*costs):
    return "\n".join(line.text for line in cost_lines(costs, memory="memory", width=70))


def test_each_case_and_all_of_them_say_what_is_known():
    weights, graph = step("weights", 4e9), step("export", 2e9)
    here = {"peak_mb": 500, "source": "measured here 2026-11-28"}
    steps = (weights, step("weights", 1e9), graph)
    found = table(
        cost("first", "agreement", "speed", missing=steps, seconds=(9.0, None), **here),
        cost("second", "speed", steps=(weights, graph), seconds=(40.0,), peak_mb=700, source="baseline of 2026-11-20"),
        cost("third", "speed", steps=(step("export", 2e9, THERE),), resumed=True),
        cost("fourth", "counts", missing=(step("expect", 0.0),), seconds=(None,)),
        cost("fifth", "run", problem="it has no weights"),
    )
    assert (
        found
        == """\
case                                         time     disk   memory
first                                        >9 s  7.00 GB   500 MB
    agreement, speed; to make: 2 weights, export; measured here
    2026-11-28
second                                       40 s        -   700 MB
    speed; as above; baseline of 2026-11-20
third                                           -        -  unknown
    speed; in the cache; speed is resumed
fourth                                    unknown        -        -
    counts; to make: expect
fifth                                           -        -        -
    cannot be built: it has no weights
in all 5 cases, one step after the other    >49 s  7.00 GB  >700 MB
    4 steps to make
  unknown: nobody has recorded or counted it; >: some of it"""
    )


def test_where_all_is_known_nothing_is_explained():
    whole = cost("whole", "speed", steps=(step("export", 2e9, THERE),), seconds=(40.0,), peak_mb=700, source="measured")
    assert (
        table(whole)
        == """\
case                                     time  disk  memory
whole                                    40 s     -  700 MB
    speed; in the cache; measured
in all 1 case, one step after the other  40 s     -  700 MB
    nothing to make"""
    )
