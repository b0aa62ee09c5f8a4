"""How strictly results are judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pytest_sdperf.core.settings import FAIL_ON, Settings
from pytest_sdperf.core.stats.interim import InterimAnalyses
from pytest_sdperf.core.stats.pairs import analyses_of
from pytest_sdperf.core.tolerances import OF_TOLERANCE, Override
from pytest_sdperf.core.units import share

# How late a comparison with stored sessions spends its error rate: more processes say little about how sessions
# differ, so early analyses are there to end what is clear, and the last one keeps most.
LATE = 2.0


def fail_on_field(name: str) -> str:
    """Return the field of a policy that says whether one of `FAIL_ON` fails."""
    return f"fail_on_{name.replace('-', '_')}"


@dataclass(frozen=True)
class Policy:
    """The limits of `judge()`.

    Attributes:
        on_cpu: The device under test is a CPU, shared with everything else that runs on it.
        processes: Samples asked for; fewer are not a measurement.
        max_processes: More are taken while a verdict is open, up to this many; not above `processes` takes no more.
        max_pairs: Most pairs of an A/B; 0 means as many as `max_processes`.
        cases: Measurements that are judged in one run.
        min_effect: Smallest relative change of a latency that counts.
        asked_effect: What was asked for, where that is under the measured spread and `min_effect` is wider; else 0.
        spread: What the wider one rests on, in words; empty without.
        cpu_min_effect: The same on a CPU, if that is larger.
        confidence: One-sided confidence of either end of an interval, all interim analyses of one measurement together.
        run_error_rate: Most false alarms per run: of many cases each gets an equal part of it.
        same_error_rate: How often two sides of an A/B may be called the same that differ by the smallest effect.
        noise_limit, cpu_noise_limit: A latency interval reaching further than this from its center says nothing:
            inside it the verdict is INCONCLUSIVE.
        memory_effect: Smallest relative change of peak device memory that counts.
        host_memory_effect: The same for host memory. It is wider because a process's peak resident memory also
            moves with allocator arenas, thread timing and file pages: eight equal ONNX Runtime processes on an
            idle machine differed by 2.0 %, and library updates and reclaimed file pages move it further.
        allocator_effect: The same for what an engine's own allocator handed out, which is counted exactly.
        memory_floor_bytes: Memory changes up to this never count.
        node_effect: Smallest relative growth of a graph that counts while no fused operator was lost.
        launch_effect: Smallest relative change of the number of kernel launches that counts. The search for
            convolution algorithms moves it by some helper kernels; an attention that is lost is found by its kind,
            whatever the sum does.
        build_effect: Smallest relative change of the time of a build step that counts. A build runs once, beside
            others that run at the same time, so it is wide.
        build_floor_s: Changes up to this many seconds never count.
        start_effect, start_floor_s: The same for a start that finds everything compiled.
        size_effect: Smallest relative change of the size of model files that counts.
        compiled_effect: The same for what an engine compiled: it may pick other kernels of the same speed.
        size_floor_bytes: Changes of a size up to this never count.
        fail_on_inconclusive: Whether INCONCLUSIVE fails instead of skipping.
        fail_on_new: Whether NEW fails.
        fail_on_not_measured: Whether NOT MEASURED fails instead of skipping.
        fail_on_unused: Whether stored cases that nothing measures any more fail the run.
    """

    on_cpu: bool = False
    processes: int = 3
    max_processes: int = 0
    max_pairs: int = 0
    cases: int = 1
    min_effect: float = 0.02
    asked_effect: float = 0.0
    spread: str = ""
    cpu_min_effect: float = 0.30
    confidence: float = 0.99
    run_error_rate: float = 0.05
    same_error_rate: float = 0.05
    noise_limit: float = 0.10
    cpu_noise_limit: float = 0.60
    memory_effect: float = 0.02
    host_memory_effect: float = 0.10
    allocator_effect: float = 0.01
    memory_floor_bytes: int = 4 * 2**20
    node_effect: float = 0.02
    launch_effect: float = 0.02
    build_effect: float = 0.5
    build_floor_s: float = 5.0
    start_effect: float = 0.5
    start_floor_s: float = 1.0
    size_effect: float = 0.01
    compiled_effect: float = 0.10
    size_floor_bytes: int = 64 * 2**10
    fail_on_inconclusive: bool = False
    fail_on_new: bool = False
    fail_on_not_measured: bool = False
    fail_on_unused: bool = False

    def __post_init__(self) -> None:
        """Refuse limits that nothing can be judged by: files hold them, too."""
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and not value >= 0:
                raise ValueError(f"the limit `{name}` is {value:g}, and limits are 0 or more")

    @property
    def latency_effect(self) -> float:
        """Smallest relative change of a latency that can fail or be an improvement."""
        return max(self.min_effect, self.cpu_min_effect) if self.on_cpu else self.min_effect

    @property
    def why_small_passes(self) -> str:
        """Why a smaller change fails nothing on a CPU, though it is there."""
        return f"on a CPU only effects above {share(self.latency_effect)} fail"

    def never_under(self, effect: float, *, because: str) -> Policy:
        """Return a policy whose smallest effect is at least this one.

        Args:
            effect: A relative change.
            because: What it rests on.
        """
        if effect <= self.min_effect:
            return self
        return replace(self, min_effect=effect, asked_effect=self.min_effect, spread=because)

    def why_wider(self, ratio: float) -> str:
        """Return why a change counts from a larger one on than was asked for; empty where it would not count anyway.

        Args:
            ratio: How many times as long it takes.
        """
        if not self.spread or max(ratio, 1 / ratio) <= 1 + self.asked_effect:
            return ""
        counts, asked = share(self.min_effect), share(self.asked_effect)
        return f"; on this GPU a change counts from {counts} on, and not from {asked}: {self.spread}"

    @property
    def error_rate(self) -> float:
        """How often an unchanged case may be called slower, and as often faster, all interim analyses together."""
        return min(1 - self.confidence, self.run_error_rate / max(self.cases, 1))

    @property
    def analyses(self) -> InterimAnalyses:
        """Numbers of processes after which a measurement is judged against stored sessions."""
        return InterimAnalyses.doubling(self.processes, self.max_processes, exponent=LATE)

    @property
    def pair_analyses(self) -> InterimAnalyses:
        """Numbers of pairs after which an A/B is judged."""
        return analyses_of(self.max_pairs or self.max_processes)

    @property
    def widest(self) -> float:
        """Widest latency interval, as a relative change, that still allows a verdict."""
        return self.cpu_noise_limit if self.on_cpu else self.noise_limit

    def memory_change(self, source: str) -> float:
        """Return the smallest relative change of memory that counts, by what told it: see `Sample.peaks_bytes`."""
        effects = {"host": self.host_memory_effect, "allocator": self.allocator_effect}
        return effects.get(source, self.memory_effect)

    def memory_reach(self, expected: float, source: str) -> float:
        """Return how many bytes more or less than `expected` do not count."""
        return max(expected * self.memory_change(source), self.memory_floor_bytes)

    @classmethod
    def of(cls, settings: Settings, *, device_kind: str, overrides: Iterable[Override] = (), cases: int = 1) -> Policy:
        """Return the policy that the command line, a device and the tolerances of a case ask for."""
        on_cpu, most = device_kind == "cpu", settings.most_processes
        # What keeps a verdict open on a CPU is the noise of the machine, and that comes with every further process.
        no_more = on_cpu and not settings.max_processes
        usual = cls(
            on_cpu=on_cpu,
            processes=settings.processes,
            max_processes=settings.processes if no_more else most,
            max_pairs=most,
            cases=cases,
            min_effect=settings.min_effect,
        )
        fails = {fail_on_field(name): name in settings.fail_on for name in FAIL_ON}
        own = {field: override.effect for override in overrides for field in OF_TOLERANCE[override.name]}
        return replace(usual, **fails, **own)  # type: ignore[arg-type]  # a number or a truth each
