"""Was the machine fit to be measured, and is it the machine that a baseline was recorded on? Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_sdperf.core.device import Device, Health
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.remark import Remark

_GIB = 2**30
# Counters of less than a millisecond, or of no whole firmware sample, are noise of reading them.
_LEAST_GROWTH = 0.001
# What holds the clocks for less than this moves no median.
_SHORTEST_S = 0.5
# Drivers reserve a few MiB more or less, and a kernel a few KiB, without making another machine of it.
_MEMORY_SLACK = 0.02
_POWER_SLACK_W = 1.0

_LABELS = {
    "slug": "device",
    "memory_bytes": "memory",
    "power_limit_w": "power limit",
    "partition": "partition",
    "locked_clocks": "locked clocks",
    "ecc": "memory error correction",
    "mig": "MIG mode",
    "arch": "architecture",
    "virtualization": "virtualization",
    "cores": "cores",
    "core_quota": "cores allowed by the control group",
    "cpu_model": "processor model",
    "pool": "pool",
}


def unfit(before: Health, after: Health, device: Device, *, during: Health | None = None) -> tuple[str, ...]:
    """Say why what was measured between two readings must not be judged; empty if it may.

    Args:
        before: Read when none of our processes used the device.
        after: Read when none of them used it any more.
        device: What was measured on. A CPU is never unfit: what else runs there is only remarked on.
        during: Read while one of our processes kept the device busy, and timed nothing; None if nobody read it.
    """
    moments = (("before", before), ("during", during), ("after", after))
    sentences = [reason for _, health in moments if health for reason in health.reasons]
    if device.kind != "cpu":
        for moment, health in moments:
            if health and health.other_processes:
                sentences.append(f"{_processes(health.other_processes)} used the GPU {moment} the measurement.")
    for name, growth in _growth(before.throttled, after.throttled):
        sentences.append(f"The GPU was slowed down while measuring: {name}, {growth:.3g} {after.counter_unit}.")
    return tuple(dict.fromkeys(sentences))


def remarks(before: Health, after: Health, device: Device, *, during: Health | None = None) -> tuple[Remark, ...]:
    """Say what is worth recording about a measurement without making it invalid. Arguments as in `unfit`."""
    found = [*before.remarks, *(during.remarks if during else ()), *after.remarks]
    for name, growth in _growth(before.capped, after.capped):
        text, short = f"While measuring: {name}, {growth:.3g} {after.counter_unit}.", growth < _SHORTEST_S
        found.append(Remark(text, name, growth, usual=short and after.counter_unit == "s"))
    if device.kind != "cpu" and before.other_processes is None:
        found.append(Remark("This machine cannot tell whether other processes use the GPU."))
    return tuple(dict.fromkeys(found))


def readings(**moments: Health | None) -> dict[str, dict[str, Any]]:
    """Return the state of a device by moment, as plain JSON data: what the machine could tell, without sentences."""
    told = ("reasons", "remarks")
    return {
        moment: {name: value for name, value in to_json(health).items() if value not in (None, {}) and name not in told}
        for moment, health in moments.items()
        if health is not None
    }


def clocks_locked(taken: Mapping[str, Mapping[str, Any]]) -> bool | None:
    """Return whether a setting held the clocks of a device down while it was busy; None where nobody could tell.

    Args:
        taken: What `readings` returned.
    """
    told: bool | None = taken.get("during", {}).get("clocks_locked")
    return told


def machine_differences(stored: Mapping[str, Any], current: Mapping[str, Any]) -> tuple[str, ...]:
    """Say in what the machine of a baseline differs from this one, a sentence for each key; the driver apart.

    Args:
        stored: Machine keys of the baseline.
        current: `Device.machine` of this machine, with its `pool`.
    """
    return tuple(
        f"{_label(key)}: {_told(key, old)} when the baseline was recorded, {_told(key, new)} now."
        for key, (old, new) in differing_keys(stored, current).items()
        if key != "driver"
    )


def differing_keys(stored: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return every key that differs, with both values, the most telling first.

    A value that only one side knows is a difference: what cannot be verified does not match.
    """
    keys = [*_LABELS, *sorted({*stored, *current} - set(_LABELS))]
    pairs = {key: (stored.get(key), current.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if not _same(key, *pair)}


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> Iterable[tuple[str, float]]:
    for name, value in after.items():
        growth = value - before.get(name, value)
        if growth >= _LEAST_GROWTH:
            yield name, growth


def _same(key: str, old: Any, new: Any) -> bool:
    if old is None or new is None or isinstance(old, str) or isinstance(new, str):
        return bool(old == new)
    if key == "memory_bytes":
        return bool(abs(old - new) <= _MEMORY_SLACK * max(old, new))
    if key == "power_limit_w":
        return bool(abs(old - new) <= _POWER_SLACK_W)
    return bool(old == new)


def _label(key: str) -> str:
    label = _LABELS.get(key, key)
    return label[:1].upper() + label[1:]


def _told(key: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if key == "memory_bytes":
        return f"{value / _GIB:.1f} GiB"
    return f"{value:g} W" if key == "power_limit_w" else str(value)


def _processes(count: int) -> str:
    return "1 other process" if count == 1 else f"{count} other processes"
