"""Which cases are built before the first test where the disk, or the cache, cannot hold the builds of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.files.disk import folder_bytes, free_bytes
from pytest_sdperf.core.units import disk_size, plural
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.plan.builds import Builds, Place, PlannedStep
from pytest_sdperf.plugin.run import Run

# What is counted by parameters may take more, and something is written meanwhile.
_SAFETY = 1.25
# Of the room on a disk: others write to it, too.
_DISK = 0.95


@dataclass(frozen=True)
class Space:
    """What a run may keep of its builds.

    Attributes:
        ahead: Cases that are built before the first test, in the order of the tests.
        cases: Number of all cases.
        whole_bytes: What the builds of all cases take.
        room_bytes: What there is room for.
        keep_bytes: What the cache may hold when a case begins to be built whose builds take most.
        begin_bytes: What it may hold before anything is built.
        needed: Keys of entries that the cache holds for `ahead`.
    """

    ahead: frozenset[Case]
    cases: int
    whole_bytes: float
    room_bytes: float
    keep_bytes: float
    begin_bytes: float
    needed: frozenset[str] = frozenset()

    @property
    def is_tight(self) -> bool:
        """Whether some builds have to go before others are made."""
        return self.whole_bytes > self.room_bytes

    def told(self, folder: Path) -> str:
        """Say what becomes of the builds."""
        room, whole = disk_size(self.room_bytes), disk_size(self.whole_bytes)
        later = self.cases - len(self.ahead)
        return (
            f"the cache {folder} has room for {room}, and all builds together take about {whole}: "
            f"{plural(later, 'case')} of {self.cases} are built when their tests begin, and builds go after their "
            f"last test"
        )


def room_bytes(folder: Path, size_bytes: int) -> float:
    """Return what a cache folder may come to hold: its limit, or what the disk has left beside what it holds."""
    return min(size_bytes, folder_bytes(folder) + _DISK * free_bytes(folder))


def space_of(cases: Iterable[Case], builds: Builds, run: Run) -> Space:
    """Return which cases fit, in their order; the first that does not ends them.

    Args:
        cases: Of the tests that will run, in their order; each counts once.
        builds: Tells the steps of a case.
        run: The run.
    """
    room = room_bytes(run.settings.cache_dir, run.settings.cache_size_bytes)
    steps = {case: _steps(case, builds, run) for case in dict.fromkeys(cases)}
    whole = _bytes(step for each in steps.values() for step in each)
    if whole <= room:
        return _space(steps, steps, whole=whole, room=room, keep=room)
    keep = max(0.0, room - max(_bytes(each) for each in steps.values()))
    ahead: list[Case] = []
    taken: list[PlannedStep] = []
    for case, each in steps.items():
        if _bytes([*taken, *each]) > keep:
            break
        ahead.append(case)
        taken += each
    return _space(steps, ahead, whole=whole, room=room, keep=keep)


def _space(
    steps: Mapping[Case, Sequence[PlannedStep]], ahead: Iterable[Case], *, whole: float, room: float, keep: float
) -> Space:
    first = frozenset(ahead)
    taken = [step for case in first for step in steps[case]]
    missing = _bytes(step for step in taken if step.entry is None)
    needed = frozenset(step.entry.key for step in taken if step.entry is not None)
    return Space(first, len(steps), whole, room, keep, max(0.0, keep - missing), needed)


def _steps(case: Case, builds: Builds, run: Run) -> tuple[PlannedStep, ...]:
    try:
        engine = run.catalog.engines.get(run.request_of(case).engine) if case.engine else None
        return builds.of(case, engine)
    except Exception:  # noqa: BLE001 - whatever it is, the test that needs this meets it again
        return ()


def _bytes(steps: Iterable[PlannedStep]) -> float:
    """Return what steps leave on the disk; one that several cases share counts once, and what nobody can tell not."""
    sizes: dict[Place, float] = {
        step.place: step.size_bytes * (1.0 if step.entry is not None else _SAFETY)
        for step in steps
        if step.size_bytes is not None
    }
    return sum(sizes.values())
