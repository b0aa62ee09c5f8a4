"""Shows device time in pytest-benchmark's tables, JSON and comparisons, where that plugin is installed.

The suite measures and judges by itself, and this only replays the samples to it; but what `--benchmark-only` and
`--benchmark-skip` are for, they do for our tests, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from pytest_sdperf.core.clock import DeviceClock
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import to_json

MACHINE_KEY = "sdperf_device"
_FIXTURE = "benchmark"
_OUTPUTS = ("json", "save", "autosave", "compare", "histogram", "csv")


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that the suite uses."""

    def pedantic(self, target: Any, *, rounds: int, iterations: int) -> Any:
        """Call `target` `rounds` times, reading the timer before and after each call."""


def is_active(config: pytest.Config) -> bool:
    """Whether pytest-benchmark is loaded and would accept a result."""
    skipped = config.getoption("benchmark_skip", None)
    return skipped is not None and not is_codspeed(config) and (not skipped or bool(config.getoption("benchmark_only")))


def skips(config: pytest.Config) -> bool:
    """Whether tests that measure are to be left out."""
    return bool(config.getoption("benchmark_skip", default=False)) and not config.getoption(
        "benchmark_only", default=False
    )


def is_codspeed(config: pytest.Config) -> bool:
    """Whether pytest-codspeed runs this session: what bears a mark of pytest-benchmark becomes its own benchmark."""
    asked = config.getoption("codspeed", None)
    return asked is not None and (asked or "CODSPEED_ENV" in os.environ)


def disabled_told(config: pytest.Config) -> str:
    """Say that tests measure although their user switched pytest-benchmark off; empty where nobody did."""
    asked = config.getoption("benchmark_disable", default=False) and not config.getoption(
        "benchmark_enable", default=False
    )
    if not asked or is_codspeed(config):
        return ""
    return (
        "--benchmark-disable is about pytest-benchmark alone: cases are measured and judged all the same. "
        "--benchmark-skip leaves them out."
    )


def codspeed_told(config: pytest.Config, count: int) -> str:
    """Say that pytest-codspeed took tests away; empty where it did not.

    Args:
        config: pytest's.
        count: Tests with a case that were collected and shall not run.
    """
    if not (is_codspeed(config) and count):
        return ""
    return (
        f"narrowed: --codspeed left out {plural(count, 'test')} with a case: pytest-codspeed runs its own benchmarks "
        f"alone. Leave it out to judge them."
    )


def give_clocks(items: Iterable[pytest.Item]) -> None:
    """Let pytest-benchmark read a clock of device time in each of these tests, which all use `sdperf_bench`."""
    for item in items:
        mark = item.get_closest_marker(_FIXTURE)
        options = {**(mark.kwargs if mark else {}), "timer": DeviceClock()}
        item.add_marker(pytest.mark.benchmark(*(mark.args if mark else ()), **options), append=False)


@contextmanager
def counted_as_benchmarks(items: Sequence[pytest.Item]) -> Iterator[None]:
    """List pytest-benchmark's fixture in these tests, which ask for it only when they have samples.

    pytest-benchmark looks at that list when it decides what `--benchmark-only` keeps.
    """
    lists = {id(names): names for names in (getattr(item, "fixturenames", None) for item in items) if names is not None}
    lists = {key: names for key, names in lists.items() if _FIXTURE not in names}
    for names in lists.values():
        names.append(_FIXTURE)
    try:
        yield
    finally:
        for names in lists.values():
            names.remove(_FIXTURE)


def show(request: pytest.FixtureRequest, samples: Sequence[float]) -> None:
    """Replay the samples of a test that uses `sdperf_bench`; without pytest-benchmark, or without samples, do nothing.

    Args:
        request: Of a function-scoped fixture of the test.
        samples: Device seconds, one per worker process.
    """
    mark = request.node.get_closest_marker(_FIXTURE)
    clock = mark.kwargs.get("timer") if mark else None
    if is_active(request.config) and isinstance(clock, DeviceClock) and samples:
        replay(request.getfixturevalue(_FIXTURE), clock, samples)


def replay(benchmark: Benchmark, clock: DeviceClock, samples: Sequence[float]) -> None:
    """Let pytest-benchmark time one round per sample on a clock that moves by the sample.

    Args:
        benchmark: pytest-benchmark's fixture, whose timer is `clock`.
        clock: The clock.
        samples: Device seconds, at least one.
    """
    rest = iter(samples)

    def advance() -> None:
        clock.advance_s(next(rest, 0.0))  # a profiler calls once more

    benchmark.pedantic(advance, rounds=len(samples), iterations=1)


def check_options(config: pytest.Config) -> None:
    """Refuse options of pytest-benchmark that would be ignored or would judge a second time.

    Raises:
        OptionError: With the way out.
    """
    if config.getoption("benchmark_compare_fail", None):
        raise OptionError(
            "--benchmark-compare-fail cannot judge the tests that use 'sdperf_bench': they are judged against the "
            "baselines, and there is one judge. Leave it out, or set the limit with sdperf_min_effect."
        )
    if is_distributed(config):
        for name in _OUTPUTS:
            if config.getoption(f"benchmark_{name}", None):
                raise OptionError(
                    f"--benchmark-{name} needs pytest-benchmark, which pytest-xdist switches off. "
                    f"Run without distribution (-n0), or leave --benchmark-{name} out."
                )


def is_distributed(config: pytest.Config) -> bool:
    """Whether pytest-xdist distributes this run, seen from the controller or from a worker."""
    return hasattr(config, "workerinput") or config.getoption("dist", "no") != "no"


def machine_entry(device: Device) -> dict[str, Any]:
    """Return what pytest-benchmark's `machine_info` says about a device: no UUID."""
    return {"kind": device.kind, "name": device.name, "slug": device.slug, "machine": to_json(device.machine)}


def check_machine(current: Mapping[str, Any], compared: Mapping[str, Any]) -> None:
    """Refuse to compare numbers of two devices.

    Args:
        current: `machine_info` of this run.
        compared: `machine_info` of the stored run.

    Raises:
        OptionError: They were taken on different devices.
    """
    here, there = (info.get(MACHINE_KEY, {}) for info in (current, compared))
    if here.get("slug") != there.get("slug"):
        raise OptionError(
            f"--benchmark-compare: the stored run was measured on {there.get('name', 'a CPU')}, this one runs on "
            f"{here.get('name', 'a CPU')}. "
            f"Compare with a run of the same device, or leave --benchmark-compare out."
        )
