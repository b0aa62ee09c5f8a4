"""What earlier sessions recorded of a case: how long it took, and how much memory."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.baselines.shipped import measured_folder
from pytest_sdperf.baselines.stored import Baseline, Session, file_of, read
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.gpu_facts import to_slug
from pytest_sdperf.core.values import Case, Sample
from pytest_sdperf.plugin.run import Run


@dataclass(frozen=True)
class Recorded:
    """The last session of a case; where there is none, nothing is known of it.

    Attributes:
        session: What was measured.
        source: Where that is kept and of which day, such as `measured here 2026-11-28`; empty for no session.
    """

    session: Session | None = None
    source: str = ""

    @property
    def process_s(self) -> float | None:
        """Seconds in which a process measured the case, without its start: the mean of all; None if not known."""
        samples = self.session.samples if self.session else ()
        return statistics.fmean(map(_seconds, samples)) if samples else None

    @property
    def peak_bytes(self) -> int | None:
        """The largest peak of device memory, of host memory on a CPU; None if not known."""
        samples = self.session.samples if self.session else ()
        peaks = [peak for sample in samples for peak in (sample.first_run_bytes, sample.second_run_bytes) if peak]
        return max(peaks, default=None)

    def step_s(self, component: str, step: str) -> float | None:
        """Return the seconds of a step of the component's build, whenever it was made; None if not known."""
        artifact = self.session.artifacts.get(component) if self.session else None
        return next((one.seconds for one in (artifact.steps if artifact else ()) if one.name == step), None)


NOTHING = Recorded()


@dataclass(frozen=True)
class Records:
    """The files of one device, each with what it is called.

    Attributes:
        files: In the order in which they are asked: the first that holds a case tells it.
    """

    files: tuple[tuple[str, Baseline | None], ...] = ()

    @classmethod
    def of(cls, run: Run) -> Records:
        """Read the candidates of this machine, the baselines, and what is shipped of the same card.

        Raises:
            BaselineError: A file is damaged.
        """
        settings, device = run.settings, device_of(run)
        slug = device.slug if device else to_slug(settings.gpu)
        candidates = State(settings.state_dir, settings.baselines).candidates_of(slug)
        folders = (settings.baselines, *run.catalog.baseline_folders)
        paths = [("measured here", candidates), *(("baseline of", file_of(folder, slug)) for folder in folders)]
        shipped = ("shipped baseline of", file_of(measured_folder(), slug))
        return cls(tuple((words, read(path)) for words, path in (*paths, shipped)))

    def last(self, case: Case) -> Recorded:
        """Return the last session of a case."""
        for words, baseline in self.files:
            if baseline is not None and case.key in baseline.cases:
                session = baseline.cases[case.key].last
                oom = "OOM, " if session.out_of_memory else ""
                return Recorded(session, f"{oom}{words} {session.date[:10]}")
        return NOTHING


def device_of(run: Run) -> Device | None:
    """Return the device of a run; None where it is not in this machine."""
    try:
        return run.device()
    except DeviceMissingError:
        return None


def _seconds(sample: Sample) -> float:
    warm = sample.warmup_runs * sample.median_s
    return sample.load_s + sample.first_run_s + sample.second_run_s + warm + sum(sample.iterations_s)
