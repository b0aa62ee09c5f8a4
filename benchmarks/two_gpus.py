"""Do several GPUs of one host disturb each other? Each measures alone, then all at once by `pytest -n`, in one go.

    python benchmarks/two_gpus.py [--gpus=2] [--folder=two-gpus] [-- PYTEST ARGUMENTS]

The arguments name what is measured; by default the UNet of sd15 under ort-cuda at four batch sizes, so that each GPU
has several cases. Afterwards every case is printed with its time alone and at once, on the GPU that measured it both
times, and their ratio; then for how much of the time at least two GPUs measured at once, without which the ratios say
nothing. The exit status is 1 where a case took more than 2 % longer at once, or nothing was measured at once. To try it
without a GPU, where measurements of the one processor take turns:
`python benchmarks/two_gpus.py --gpus=0 -- suites/test_pipelines.py --component=unet`.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.units import percent, seconds
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.lock_wait import LockWait
from pytest_sdperf.report.results import read_results

USUAL = (
    "suites/test_pipelines.py",
    *("--engine=ort-cuda:cuda_graph=on", "--model=sd15", "--component=unet", "--batch-size=1,2,4,8"),
)
LIMIT = 1.02
ENDED = (0, 1, 10, 11, 12)  # every test came to its end, whatever its verdict


@dataclass(frozen=True)
class Comparison:
    """One case on one GPU, alone and at once."""

    key: str
    position: int
    alone_s: float
    at_once_s: float

    @property
    def ratio(self) -> float:
        """How much longer it took at once."""
        return self.at_once_s / self.alone_s


def measured(path: Path, arguments: Sequence[str]) -> list[Measurement]:
    """Run pytest and return what was measured; end the program where it did not come to its end."""
    command = [sys.executable, "-m", "pytest", *arguments, f"--sdperf-json={path}", "-q", "-p", "no:cacheprovider"]
    with path.with_suffix(".log").open("w") as log:
        status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    print(f"{path.stem}: exit status {status}", flush=True)
    if status not in ENDED:
        sys.exit(f"{path.stem} was not measured: see {path.with_suffix('.log')}")
    found = [report.measurement for report in read_results(path).reports if report.measurement is not None]
    return [one for one in found if one.samples]


def compared(alone: Sequence[Sequence[Measurement]], at_once: Sequence[Measurement]) -> Iterator[Comparison]:
    """Yield each case that was measured at once, beside its time alone on the same GPU."""
    before = {(place, one.case.key): one.latency_s for place, found in enumerate(alone) for one in found}
    for one in at_once:
        place = one.turn.position if one.turn is not None else 0
        if (place, one.case.key) in before:
            yield Comparison(one.case.key, place, before[place, one.case.key], one.latency_s)


def overlap(turns: Sequence[LockWait]) -> tuple[float, float]:
    """Return for how many seconds at least two GPUs measured, and for how many at least one did."""
    moments = sorted({moment for turn in turns for moment in (turn.began_s, turn.ended_s)})
    both = some = 0.0
    for begin, end in itertools.pairwise(moments):
        busy = len({turn.position for turn in turns if turn.began_s <= begin and end <= turn.ended_s})
        both += (end - begin) * (busy > 1)
        some += (end - begin) * (busy > 0)
    return both, some


def main() -> int:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2, help="how many; 0 tries the program on the processor")
    parser.add_argument("--folder", type=Path, default=Path("two-gpus"))
    parser.add_argument("arguments", nargs="*", default=list(USUAL))
    chosen = parser.parse_args()
    state = f"--sdperf-state-dir={chosen.folder.resolve() / 'state'}"
    baselines = chosen.folder.resolve() / "baselines"
    baselines.mkdir(parents=True, exist_ok=True)
    usual = [*(chosen.arguments or USUAL), state, f"--sdperf-baselines={baselines}"]
    alone = [
        measured(chosen.folder / f"alone-{place}.json", [*usual, f"--sdperf-gpu={place if chosen.gpus else 'cpu'}"])
        for place in range(max(chosen.gpus, 1))
    ]
    workers = [f"--sdperf-gpu={'auto' if chosen.gpus else 'cpu'}", f"-n{chosen.gpus or 2}"]
    at_once = measured(chosen.folder / "at-once.json", [*usual, *workers])
    found = sorted(compared(alone, at_once), key=lambda one: (one.position, one.key))
    for one in found:
        times = f"alone {seconds(one.alone_s)}, at once {seconds(one.at_once_s)}, {percent(one.ratio)}"
        print(f"GPU {one.position}: {times}: {one.key}")
    both, some = overlap([one.turn for one in at_once if one.turn is not None])
    print(f"at least two measured for {both:.1f} of {some:.1f} s")
    if not found or not both:
        print("nothing was measured at once, so this says nothing")
        return 1
    ratios = [one.ratio for one in found]
    print(f"at once against alone: median {percent(statistics.median(ratios))}, worst {percent(max(ratios))}")
    return int(max(ratios) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
