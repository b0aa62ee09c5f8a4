"""Which files judge the cases of a device: the project's own, those of registered folders, and the shipped one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.baselines.shipped import measured_folder
from pytest_sdperf.baselines.stored import Baseline, Machine, StoredCase, file_of, read, stored_of
from pytest_sdperf.core.values import Case

Reader = Callable[[Path], Baseline | None]


@dataclass(frozen=True)
class Source:
    """One file and its content."""

    path: Path
    baseline: Baseline


@dataclass(frozen=True)
class BaselineFiles:
    """The files of one device, in the order in which they are asked: a case is judged by the first that holds it.

    Attributes:
        own: The project's own file, which need not exist; no other one is ever written.
        files: Those that there are; the project's own comes first.
    """

    own: Path
    files: tuple[Source, ...] = ()

    @classmethod
    def of_device(
        cls, own: Path, registered: Iterable[Path] = (), *, slug: str, machine: Machine, reader: Reader = read
    ) -> BaselineFiles:
        """Read the files of a device.

        Args:
            own: The project's folder of baselines.
            registered: Folders of plug-ins, in the order of registration.
            slug: Of the device.
            machine: Keys of the machine that is judged: a shipped case counts only where all of them are equal.
            reader: Reads one file.

        Raises:
            BaselineError: A file cannot be trusted.
        """
        paths = dict.fromkeys(file_of(folder, slug) for folder in (own, *registered))
        found = [(path, reader(path)) for path in paths]
        shipped = file_of(measured_folder(), slug)
        if shipped.resolve() not in {path.resolve() for path in paths}:
            found.append((shipped, _of_machine(reader(shipped), machine)))
        return cls(file_of(own, slug), tuple(Source(path, one) for path, one in found if one is not None))

    def source_of(self, case: Case) -> Source | None:
        """Return the file that judges a case; None where it is stored nowhere."""
        return next((source for source in self.files if case.key in source.baseline.cases), None)

    def stored(self, case: Case, machine: Machine) -> tuple[StoredCase | None, dict[str, tuple[Any, Any]]]:
        """Return what is stored of a case, and the machine keys in which its machine differs from another one."""
        source = self.source_of(case)
        return stored_of(source.baseline if source else None, case, machine)

    @property
    def baseline(self) -> Baseline | None:
        """Everything that judges, as one; None where there is no file."""
        if not self.files:
            return None
        cases: dict[str, StoredCase] = {}
        for source in reversed(self.files):
            cases.update(source.baseline.cases)
        return Baseline(machine=self.files[0].baseline.machine, cases=cases)

    def counted(self) -> Iterator[tuple[Path, Mapping[str, StoredCase]]]:
        """Yield each file with the cases that it judges; the project's own in any case, files without such not."""
        seen: set[str] = set()
        if not any(source.path == self.own for source in self.files):
            yield self.own, {}
        for source in self.files:
            judged = {key: stored for key, stored in source.baseline.cases.items() if key not in seen}
            seen.update(judged)
            if judged or source.path == self.own:
                yield source.path, judged


def _of_machine(shipped: Baseline | None, machine: Machine) -> Baseline | None:
    """Return what of a shipped file was recorded on such a machine, and in its pool; None where nothing was."""
    if shipped is None:
        return None
    cases = {key: one for key, one in shipped.cases.items() if not stored_of(shipped, one.case, machine)[1]}
    return Baseline(machine=shipped.machine, cases=cases) if cases else None
