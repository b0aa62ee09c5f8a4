"""Faults of the machine: what its readings and its identity say. Nothing of the machine itself is changed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_sdperf.core.device import Health
from pytest_sdperf.faults.fault import Fault, FaultStage
from pytest_sdperf.faults.wanted import (
    MEASURED,
    ON_GPU,
    STORED_PICTURES,
    TEXT_ENCODER,
    TIMED_ON_GPU,
    invalid,
    regressed,
)

Machine = Mapping[str, Any]


def slowed_down(health: Health, reading: int) -> Health:
    reason = "The GPU is slowed down: hardware thermal slowdown (clocks event reason 0x40)."
    return dataclasses.replace(health, reasons=(*health.reasons, reason))


def slowed_down_meanwhile(health: Health, reading: int) -> Health:
    return dataclasses.replace(health, throttled={**health.throttled, "hardware thermal slowdown": 0.75 * reading})


def off_the_bus(health: Health, reading: int) -> Health:
    return Health(reasons=("NVML does not answer for this GPU; it may have fallen off the bus.",))


def shared(health: Health, reading: int) -> Health:
    return dataclasses.replace(health, other_processes=1)


def half_as_much_again(joules: float) -> float:
    return 1.5 * joules


def other_driver(machine: Machine) -> dict[str, Any]:
    return {**machine, "driver": "580.65.06"}


def lower_power(machine: Machine) -> dict[str, Any]:
    return {**machine, "power_limit_w": 250.0}


def locked_clocks(machine: Machine) -> dict[str, Any]:
    return {**machine, "locked_clocks": 1200}


def partitioned(machine: Machine) -> dict[str, Any]:
    return {**machine, "partition": "1g.10gb"}


def fewer_cores(machine: Machine) -> dict[str, Any]:
    return {**machine, "cores": 1, "core_quota": 0.5}


def half_the_memory(machine: Machine) -> dict[str, Any]:
    return {**machine, "memory_bytes": int(machine.get("memory_bytes") or 2**30) // 2}


@contextlib.contextmanager
def clipping_ddim() -> Iterator[None]:
    """Clip what DDIM predicts at every step, as its class does where a configuration says nothing."""
    from unittest import mock  # it loads asyncio, for which every worker would wait

    from diffusers.schedulers.scheduling_ddim import DDIMScheduler

    own = DDIMScheduler.step

    def step(scheduler: Any, *arguments: Any, **named: Any) -> Any:
        scheduler.register_to_config(clip_sample=True)
        return own(scheduler, *arguments, **named)

    with mock.patch.object(DDIMScheduler, "step", step):
        yield


_UNFIT = "The machine was not fit to be measured: "
_OTHER = "The baseline was recorded on another machine: "


def _reading(name: str, about: str, change: Any, words: str, *, on_gpu: bool = False) -> Fault:
    found = invalid("machine-not-fit", f"{_UNFIT}{words}.")
    options = ON_GPU if on_gpu else MEASURED
    return Fault(f"environment-{name}", about, FaultStage.READINGS, change, found, TEXT_ENCODER, options, on_gpu=on_gpu)


def _machine(name: str, about: str, change: Any, words: str, code: str = "machine-changed") -> Fault:
    found = invalid(code, words)
    return Fault(
        f"environment-{name}", about, FaultStage.MACHINE, change, found, TEXT_ENCODER, MEASURED, against_baseline=True
    )


FAULTS = (
    _reading(
        "slowed-down",
        "The GPU says that it is too hot and slowed down.",
        slowed_down,
        "The GPU is slowed down: hardware thermal slowdown (clocks event reason 0x40)",
    ),
    _reading(
        "slowed-down-meanwhile",
        "The GPU's counter of thermal slowdown grows while a case is measured; before and after it is cool.",
        slowed_down_meanwhile,
        "The GPU was slowed down while measuring: hardware thermal slowdown, # s",
    ),
    _reading(
        "off-the-bus",
        "The GPU no longer answers the driver.",
        off_the_bus,
        "NVML does not answer for this GPU; it may have fallen off the bus",
    ),
    _reading(
        "shared-with-others",
        "A process of somebody else is on the GPU.",
        shared,
        "1 other process used the GPU before the measurement...",
        on_gpu=True,
    ),
    Fault(
        "environment-draws-more",
        "The GPU takes half as much energy again for the same calls, in the same time.",
        FaultStage.ENERGY,
        half_as_much_again,
        regressed(
            "more-energy",
            "Text encoder energy: # J per call at # W is # % above its baseline of # J per call at # W (held up to # J "
            "...)...",
        ),
        TEXT_ENCODER,
        TIMED_ON_GPU,
        against_baseline=True,
        on_gpu=True,
    ),
    _machine(
        "other-driver",
        "The driver was updated since the baseline was recorded.",
        other_driver,
        "The baseline was recorded under another driver: driver was ... and is 580.65.06; a driver is not what is "
        'tested. To start anew under this one, type: sdperf baselines accept --re-anchor --reason="new driver".',
        "driver-changed",
    ),
    _machine(
        "lower-power-limit",
        "The power limit of the card was lowered.",
        lower_power,
        f"{_OTHER}power_limit_w was ... and is 250.0.",
    ),
    _machine(
        "locked-clocks",
        "Somebody locked the clocks of the card.",
        locked_clocks,
        f"{_OTHER}locked_clocks was ... and is 1200.",
    ),
    _machine(
        "part-of-a-card",
        "The device is a part of a card where it was a whole one.",
        partitioned,
        f"{_OTHER}partition was ... and is 1g.10gb.",
    ),
    _machine(
        "half-the-memory",
        "The machine, or its control group, has half the memory.",
        half_the_memory,
        f"{_OTHER}memory_bytes was # and is #.",
    ),
    _machine(
        "fewer-cores",
        "The control group allows half a core where it allowed all of them.",
        fewer_cores,
        f"{_OTHER}core_quota was ... and is 0.5, cores was # and is 1.",
    ),
    Fault(
        "environment-scheduler-clips",
        "A release of diffusers clips what DDIM predicts, whatever the configuration says: for the reference too.",
        FaultStage.LIBRARY,
        clipping_ddim,
        invalid(
            "reference-wrong",
            "The reference is wrong, so that what agrees with it tells nothing: torch in float32 draws # of 4 pictures "
            "as their prompts say, where these weights drew 4 when they were stored (window # to #...); clearness # "
            "against # (window # to #...); things ... pixels from where they were then (at most #: OUTSIDE). ...",
            by="semantics",
        ),
        options=STORED_PICTURES,
    ),
)
