"""What earlier sessions say about a case: how long it took, and how much memory."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.baselines.stored import Baseline, Session, read
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Case, Sample
from pytest_sdperf.plugin.plan.estimate import Estimate


@dataclass(frozen=True)
class RecordedSessions:
    """Sessions of one device.

    Attributes:
        stored: Accepted ones.
        candidates: Those of this machine that nobody has accepted yet.
    """

    stored: Baseline | None = None
    candidates: Baseline | None = None

    @classmethod
    def of(cls, stored: Baseline | None, settings: Settings, *, slug: str) -> RecordedSessions:
        """Read the project's candidates of a device.

        Raises:
            BaselineError: Their file is damaged.
        """
        return cls(stored, read(State(settings.state_dir, settings.baselines).candidates_of(slug)))

    def process_seconds(self, case: Case) -> Estimate | None:
        """Return how long one process measured the case last time, without its start; None if it never did."""
        session, source = self._last(case)
        if session is None or not session.samples:
            return None
        return Estimate(sum(map(_seconds, session.samples)) / len(session.samples), (source,))

    def first_seconds(self, case: Case) -> Estimate | None:
        """Return how long loading and the first run took last time; None if they were never measured."""
        session, source = self._last(case)
        if session is None or not session.samples:
            return None
        return Estimate(max(sample.load_s + sample.first_run_s for sample in session.samples), (source,))

    def peak_bytes(self, case: Case) -> Estimate | None:
        """Return the largest peak of device memory last time, host memory on a CPU; None if it was never measured."""
        session, source = self._last(case)
        samples = session.samples if session else ()
        peaks = [peak for sample in samples for peak in (sample.first_run_bytes, sample.second_run_bytes) if peak]
        return Estimate(max(peaks), (source,)) if peaks else None

    def ran_out_of_memory(self, case: Case) -> bool:
        """Whether the case ran out of memory last time."""
        session, _ = self._last(case)
        return session is not None and session.out_of_memory

    def _last(self, case: Case) -> tuple[Session | None, str]:
        found: list[tuple[str, str, Session]] = []
        for baseline, words in ((self.stored, "baseline of"), (self.candidates, "measured here")):
            if baseline is not None and case.key in baseline.cases:
                last = baseline.cases[case.key].last
                found.append((last.date, f"{words} {last.date[:10]}", last))
        if not found:
            return None, ""
        _, source, session = max(found, key=lambda one: one[0])
        return session, source


def _seconds(sample: Sample) -> float:
    warm = sample.warmup_runs * sample.median_s
    return sample.load_s + sample.first_run_s + sample.second_run_s + warm + sum(sample.iterations_s)
