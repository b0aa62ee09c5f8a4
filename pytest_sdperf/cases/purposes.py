"""What the fixtures of a test say about it, in one table: whoever decides by a fixture's name reads it here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest

from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.items import case_of, checks_of, fixtures_of

COUNTS, SPEED = "counts", "speed"
RUN, BUILD = "run", "build"
# In the order in which a plan names them; registered checks stand before the times.
CHECKS = (COUNTS, SPEED)


@dataclass(frozen=True)
class Purpose:
    """What one fixture, or all those of a test, are for.

    Attributes:
        axes: The axes of its cases; None where it has none of its own.
        checks: What it finds out, of `CHECKS`.
        builds: Whether a build is looked at.
        executes: Whether something runs on the device.
        needs_device: Whether the device, or its engine, has to be here.
    """

    axes: Axes | None = None
    checks: frozenset[str] = frozenset()
    builds: bool = False
    executes: bool = False
    needs_device: bool = False

    @property
    def makes(self) -> bool:
        """Whether something has to be made for it: a graph, or weights."""
        return self.builds or self.executes

    @property
    def measures(self) -> bool:
        """Whether a baseline is held against it."""
        return SPEED in self.checks

    @property
    def two_sided(self) -> bool:
        """Whether it looks at side B of an A/B, beside side A or alone."""
        return bool(self.checks - {COUNTS})

    @property
    def told(self) -> tuple[str, ...]:
        """What a plan says that it does: what it finds out, else that it runs, else that it looks at a build."""
        place = {check: number for number, check in enumerate(CHECKS)}
        ordered = sorted(self.checks, key=lambda check: (place.get(check, place[SPEED] - 0.5), check))
        return tuple(ordered) or ((RUN,) if self.executes else (BUILD,))

    def __or__(self, other: Purpose) -> Purpose:
        """Return what both are for: the axes of the one that has more of them."""
        axes = [one for one in Axes if one in {self.axes, other.axes}]
        return Purpose(
            axes=axes[-1] if axes else None,
            checks=self.checks | other.checks,
            builds=self.builds or other.builds,
            executes=self.executes or other.executes,
            needs_device=self.needs_device or other.needs_device,
        )


def _runs(check: str = "") -> Purpose:
    checks = frozenset({check} if check else ())
    return Purpose(Axes.ENGINE, checks, executes=True, needs_device=True)


PURPOSES: Mapping[str, Purpose] = MappingProxyType(
    {
        "sdperf_bench": _runs(SPEED),
        "sdperf_build": Purpose(Axes.BUILD, builds=True),
        "sdperf_case": Purpose(),
        "sdperf_device": Purpose(needs_device=True),
        "sdperf_engine": Purpose(Axes.ENGINE, needs_device=True),
        "sdperf_expected_counts": Purpose(checks=frozenset({COUNTS})),
        "sdperf_model": Purpose(Axes.MODEL),
        "sdperf_runner": _runs(),
        "sdperf_session": Purpose(),
    }
)


def of_fixtures(names: Collection[str]) -> Purpose:
    """Return what fixtures are for together; those of other people are for nothing that is known here."""
    found = Purpose()
    for name in PURPOSES.keys() & set(names):
        found |= PURPOSES[name]
    return found


def purpose_of(item: pytest.Item) -> Purpose:
    """Return what a test is for, by its fixtures, indirect ones and those of registered checks included.

    A check runs what it looks at, unless the test hands it a build alone. One that is handed expected counts looks at
    these.
    """
    found = of_fixtures(fixtures_of(item))
    if found.checks == {COUNTS} and not found.executes:
        return found
    for check in checks_of(item):
        found |= Purpose(checks=frozenset({check})) if found.builds else _runs(check)
    return found


def axes_of(names: Collection[str]) -> Axes:
    """Return the axes of a test by its fixtures: one that asks for its case alone gets those that run."""
    return of_fixtures(names).axes or Axes.ENGINE


def measures(item: pytest.Item) -> bool:
    """Whether a test measures one of our cases, for a baseline."""
    return case_of(item) is not None and purpose_of(item).measures
