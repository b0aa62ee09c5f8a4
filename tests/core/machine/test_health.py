from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.device import Device, Health
from pytest_sdperf.core.machine.health import differing_keys, machine_differences, readings, remarks, unfit
from pytest_sdperf.core.values.remark import Remark

GPU = Device("cuda", "NVIDIA H100 80GB HBM3", "h100-sxm5-80gb")
CPU = Device("cpu", "AMD EPYC", "cpu-amd-epyc-2c")
FINE = Health(other_processes=0)


def test_a_quiet_gpu_is_fit():
    assert unfit(FINE, FINE, GPU) == ()
    assert remarks(FINE, FINE, GPU) == ()


def test_reasons_are_told_once():
    slow = replace(FINE, reasons=("The GPU is slowed down: hardware slowdown (clocks event reason 0x8).",))
    hot = replace(FINE, reasons=(*slow.reasons, "The GPU is slowed down: hardware thermal slowdown."))
    assert unfit(slow, hot, GPU) == hot.reasons
    assert unfit(FINE, slow, GPU) == slow.reasons


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        (1, 0, ("1 other process used the GPU before the measurement.",)),
        (0, 2, ("2 other processes used the GPU after the measurement.",)),
        (
            3,
            1,
            (
                "3 other processes used the GPU before the measurement.",
                "1 other process used the GPU after the measurement.",
            ),
        ),
        (None, None, ()),
    ],
)
def test_a_shared_gpu_is_unfit(before, after, sentences):
    assert unfit(Health(other_processes=before), Health(other_processes=after), GPU) == sentences


def test_what_is_seen_while_the_device_is_busy_counts_too():
    busy = Health(
        reasons=("The GPU is slowed down: hardware slowdown (clocks event reason 0x8).",),
        remarks=(Remark("The clocks are held by: software power cap (clocks event reason 0x4)."),),
        other_processes=1,
    )
    assert unfit(FINE, FINE, GPU, during=busy) == (
        *busy.reasons,
        "1 other process used the GPU during the measurement.",
    )
    assert remarks(FINE, FINE, GPU, during=busy) == busy.remarks


def test_readings_hold_what_the_machine_could_tell():
    seen = Health(sm_clock_mhz=1980, other_processes=0, capped={"software power cap": 1.5}, reasons=("It is hot.",))
    assert readings(before=FINE, during=None, after=seen) == {
        "before": {"other_processes": 0, "counter_unit": "s"},
        "after": {
            "sm_clock_mhz": 1980,
            "other_processes": 0,
            "capped": {"software power cap": 1.5},
            "counter_unit": "s",
        },
    }


def test_throttling_between_the_readings_is_found_though_both_are_idle():
    before = replace(FINE, throttled={"hardware thermal slowdown": 10.0, "hardware power brake": 1.0})
    after = replace(FINE, throttled={"hardware thermal slowdown": 10.35, "hardware power brake": 1.0})
    assert unfit(before, after, GPU) == ("The GPU was slowed down while measuring: hardware thermal slowdown, 0.35 s.",)


def test_counters_in_the_vendors_unit():
    before = replace(FINE, throttled={"socket thermal limit": 5.0}, counter_unit="firmware samples")
    after = replace(before, throttled={"socket thermal limit": 17.0})
    assert unfit(before, after, GPU) == (
        "The GPU was slowed down while measuring: socket thermal limit, 12 firmware samples.",
    )


@pytest.mark.parametrize("after", [{"x": 1.0}, {"x": 1.0005}, {"x": 0.0}, {"y": 99.0}, {}])
def test_counters_that_did_not_grow(after):
    assert unfit(replace(FINE, throttled={"x": 1.0}), replace(FINE, throttled=after), GPU) == ()


def test_the_power_cap_is_a_remark():
    before = replace(FINE, capped={"software power cap": 1.0})
    held = Remark("The clocks are held by: software power cap.")
    after = replace(FINE, capped={"software power cap": 13.3}, remarks=(held,))
    assert unfit(before, after, GPU) == ()
    grown = Remark("While measuring: software power cap, 12.3 s.", "software power cap", pytest.approx(12.3))
    assert remarks(before, after, GPU) == (held, grown)


@pytest.mark.parametrize(
    ("unit", "growth", "usual"), [("s", 0.25, True), ("s", 0.5, False), ("firmware samples", 0.25, False)]
)
def test_a_cap_of_less_than_half_a_second_is_for_json_alone(unit, growth, usual):
    before, after = (Health(other_processes=0, capped={"cap": at}, counter_unit=unit) for at in (1.0, 1.0 + growth))
    assert remarks(before, after, GPU) == (Remark(f"While measuring: cap, {growth} {unit}.", "cap", growth, usual),)


def test_what_a_machine_cannot_tell_is_remarked_on():
    assert remarks(Health(), Health(), GPU) == (
        Remark("This machine cannot tell whether other processes use the GPU."),
    )


def test_a_cpu_is_never_unfit_for_what_else_runs_there():
    busy = Health(remarks=(Remark("Load average of the last minute: 7.9 on 2 cores."),), other_processes=300)
    assert unfit(busy, busy, CPU) == ()
    assert remarks(busy, busy, CPU) == busy.remarks
    assert remarks(Health(), Health(), CPU) == ()


# ---------------------------------------------------------------------------------------------------------- machines

MACHINE = {
    "slug": "h100-sxm5-80gb",
    "memory_bytes": 81_559 * 2**20,
    "power_limit_w": 700.0,
    "partition": "whole",
    "mig": "disabled",
    "locked_clocks": "default",
    "driver": "580.159.04",
    "ecc": "on",
    "pool": "default",
}


def test_the_same_machine():
    assert machine_differences(MACHINE, dict(MACHINE)) == ()


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("slug", "h200", "Device: h100-sxm5-80gb when the baseline was recorded, h200 now."),
        ("memory_bytes", 40 * 2**30, "Memory: 79.6 GiB when the baseline was recorded, 40.0 GiB now."),
        ("power_limit_w", 400.0, "Power limit: 700 W when the baseline was recorded, 400 W now."),
        ("power_limit_w", None, "Power limit: 700 W when the baseline was recorded, unknown now."),
        ("partition", "1g.10gb", "Partition: whole when the baseline was recorded, 1g.10gb now."),
        ("mig", "enabled", "MIG mode: disabled when the baseline was recorded, enabled now."),
        ("locked_clocks", "SM 1095 MHz", "Locked clocks: default when the baseline was recorded, SM 1095 MHz now."),
        ("ecc", "off", "Memory error correction: on when the baseline was recorded, off now."),
        ("pool", "cloud", "Pool: default when the baseline was recorded, cloud now."),
        ("rack", "7", "Rack: unknown when the baseline was recorded, 7 now."),
    ],
)
def test_another_machine(key, value, sentence):
    assert machine_differences(MACHINE, {**MACHINE, key: value}) == (sentence,)


def test_differences_are_told_with_the_most_telling_first():
    other = {**MACHINE, "pool": "cloud", "slug": "h200", "power_limit_w": 600.0}
    assert list(differing_keys(MACHINE, other)) == ["slug", "power_limit_w", "pool"]


def test_the_driver_is_told_apart():
    other = {**MACHINE, "driver": "590.1"}
    assert machine_differences(MACHINE, other) == ()
    assert list(differing_keys(MACHINE, other)) == ["driver"]


def test_a_drivers_reservation_does_not_make_another_machine():
    other = {**MACHINE, "memory_bytes": 81_920 * 2**20, "power_limit_w": 699.996}
    assert differing_keys(MACHINE, other) == {}


def test_a_key_that_neither_side_knows_is_no_difference():
    assert differing_keys({"power_limit_w": None}, {}) == {}


VALUES = st.none() | st.sampled_from(["a", "b"]) | st.integers(0, 2**40)
MACHINES = st.dictionaries(st.sampled_from([*MACHINE, "cores"]), VALUES)


@given(MACHINES, MACHINES)
def test_differences_are_symmetric_and_none_with_oneself(one, other):
    assert set(differing_keys(one, other)) == set(differing_keys(other, one))
    assert differing_keys(one, one) == {}
    assert len(machine_differences(one, other)) == len(set(differing_keys(one, other)) - {"driver"})
