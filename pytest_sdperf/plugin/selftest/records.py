"""What self-tests measured: one file per device, beside its baseline, and until it is accepted in the state folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from pytest_sdperf.baselines.files import locked, pretty, write_checked
from pytest_sdperf.baselines.shipped import measured_folder
from pytest_sdperf.baselines.stored import Machine
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.machine.health import differing_keys, machine_differences
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.selftest.rates import Rate

SCHEMA = 1
FOLDER = "selftest"


class RuleCounts(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one rule made of one slowdown, over all runs; one line of the file, without the names of its fields.

    Attributes:
        rule: `comparisons.Rule.name`.
        limit: Smallest change that counted, as a relative change.
        effect: Slowdown that was injected; 0 for one build against itself.
        comparisons: How many there were.
        found: Of these, how many called B slower; of one build against itself, slower or faster: false alarms.
        processes: What all of them took.
    """

    rule: str
    limit: float
    effect: float
    comparisons: int
    found: int
    processes: int

    @property
    def rate(self) -> Rate:
        """How often B was called slower."""
        return Rate(self.found, self.comparisons)


class SelfTestRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of the self-test.

    Attributes:
        date: When it began: UTC, to the minute.
        suite: Version of pytest_sdperf.
        subject: Versions and settings of what ran.
        builds: Component -> content address of what was loaded.
        medians_s: Slowdown -> median of each process, in the order in which they ran; None where it timed others. Every
            process has one of the slowdown `0`.
        obtained: Slowdown -> share by which the calls of each process were really made longer.
        waited: Slowdown -> share of the time that the threads of each process waited for a processor meanwhile; None
            where nobody knows.
    """

    date: str
    suite: str
    subject: dict[str, str] = {}
    builds: dict[str, str] = {}
    medians_s: dict[str, tuple[float | None, ...]]
    obtained: dict[str, tuple[float | None, ...]] = {}
    waited: dict[str, tuple[float | None, ...]] = {}

    @property
    def plain_s(self) -> tuple[float, ...]:
        """Medians of calls as they are."""
        return tuple(value for value in self.medians_s["0"] if value is not None)

    @property
    def processes(self) -> int:
        """Processes that measured."""
        return len(self.medians_s["0"])


class SelfTests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every self-test of one case.

    Attributes:
        case: Its identity.
        runs: Oldest first.
        rows: What the rules made of them.
    """

    case: Case
    runs: tuple[SelfTestRun, ...]
    rows: tuple[RuleCounts, ...] = ()


class SelfTestFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one file.

    Attributes:
        schema: Number of the format.
        machine: Machine keys under which everything in it was measured.
        cases: `Case.key` -> self-tests.
    """

    schema: int = SCHEMA
    machine: dict[str, str | int | float | None]
    cases: dict[str, SelfTests] = {}


def key_of(effect: float) -> str:
    """Return the name of a slowdown in a file: `0`, `0.02`."""
    return f"{effect:g}"


def file_of(folder: Path, slug: str) -> Path:
    """Return the file of a device in a folder of baselines, or in the state folder."""
    return folder / FOLDER / f"{slug}.json"


def read(path: Path) -> SelfTestFile | None:
    """Read one file; None where there is none.

    Raises:
        BaselineError: It cannot be read, or is not such a file.
    """
    try:
        found = strict_json.convert(strict_json.read(path), SelfTestFile)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BaselineError(
            f"file of self-tests {path} is not valid: {error}. Nothing was written to it. Restore it from version "
            f"control, or move it away and type --sdperf-selftest again."
        ) from error
    if found.schema != SCHEMA:
        raise BaselineError(
            f"file of self-tests {path} has schema {found.schema}; this version of pytest-sdperf reads schema "
            f"{SCHEMA}. Install the version that wrote it, or move it away and type --sdperf-selftest again."
        )
    return found


class Archive:
    """The self-tests of one machine: those that are shipped, those that were accepted, and those that only it knows.

    Args:
        settings: Name the folder of the baselines, and the state folder.
        slug: The device.
        machine: Its keys: self-tests under others tell nothing about it.
    """

    def __init__(self, settings: Settings, *, slug: str, machine: Machine) -> None:
        self.accepted, self.own = file_of(settings.baselines, slug), file_of(settings.state_dir, slug)
        self.shipped = file_of(measured_folder(), slug)
        self._locks, self._machine = settings.state_dir / "locks", machine

    def cases(self) -> dict[str, SelfTests]:
        """Return `Case.key` -> self-tests of this machine; each file holds what those before it had of a case.

        Raises:
            BaselineError: A file cannot be trusted.
        """
        return {**self._of(self.shipped), **self._of(self.accepted), **self._of(self.own)}

    def keep(self, tested: SelfTests) -> None:
        """Write the self-tests of a case into the state folder, in the place of those that are there.

        Raises:
            BaselineError: The file cannot be trusted or written.
            PrivacyError: They hold private text.
        """
        self._change(self.own, lambda present: {**present, tested.case.key: tested})

    def accept(self, key: str) -> None:
        """Move the self-tests of a case to the baselines.

        Raises:
            BaselineError: A file cannot be trusted or written, or the baselines hold those of another machine; under
                another driver they begin anew.
        """
        present = read(self.accepted)
        differences = machine_differences(present.machine, self._machine) if present is not None else ()
        if differences:
            raise BaselineError(
                f"file of self-tests {self.accepted} is of another machine. {' '.join(differences)} Nothing was "
                f"written to it. Name another folder with --sdperf-baselines=FOLDER, or move the file away."
            )
        tested = self._of(self.own).get(key)
        if tested is not None:
            self._change(self.accepted, lambda present: {**present, key: tested})
            self._change(self.own, lambda present: {name: one for name, one in present.items() if name != key})

    def _of(self, path: Path) -> dict[str, SelfTests]:
        found = read(path)
        return {} if found is None or differing_keys(found.machine, self._machine) else found.cases

    def _change(self, path: Path, change: Callable[[dict[str, SelfTests]], dict[str, SelfTests]]) -> None:
        with locked(path, lock_dir=self._locks):
            content = SelfTestFile(machine=dict(self._machine), cases=change(self._of(path)))
            write_checked(path, pretty(msgspec.to_builtins(content)) + "\n")


def with_run(tested: SelfTests | None, case: Case, run: SelfTestRun) -> SelfTests:
    """Return self-tests with one more run."""
    if tested is None:
        return SelfTests(case=case, runs=(run,))
    return SelfTests(case=case, runs=(*tested.runs, run), rows=tested.rows)
