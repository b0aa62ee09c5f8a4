from __future__ import annotations

import contextlib
import platform
import subprocess
import sys
import types
from types import SimpleNamespace

import psutil
import pytest

from pytest_sdperf.core.device import Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.values.remark import Remark
from pytest_sdperf.devices.cpu import CpuProbe

GIB = 2**30
EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: {name}
stepping\t: 1

processor\t: 1
vendor_id\t: AuthenticAMD
"""
ARM = """processor\t: 0
BogoMIPS\t: 243.75
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
MEMORY = SimpleNamespace(total=16 * GIB, available=12 * GIB)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that makes psutil and the file system answer as those of another machine."""

    def make(*, cpuinfo="", cores=8, system="linux", files=None, **readings) -> CpuProbe:
        texts = {"proc/cpuinfo": cpuinfo, **(files or {})}
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        answers = {
            "cpu_freq": None,
            "cpu_times": SimpleNamespace(user=1.0),
            "getloadavg": (0.5, 0.4, 0.3),
            "sensors_battery": None,
            "sensors_temperatures": {},
            "virtual_memory": MEMORY,
            **readings,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(psutil, name, lambda answer=answer: answer, raising=False)
        monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(cores)), raising=False)
        monkeypatch.setattr("pytest_sdperf.devices.cpu.sys", SimpleNamespace(platform=system))
        return CpuProbe(tmp_path)

    return make


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("AMD EPYC", "cpu-amd-epyc-8c"),
        ("AMD EPYC 7763 64-Core Processor", "cpu-amd-epyc-7763-8c"),
        ("AMD Ryzen 7 7840U w/ Radeon  780M Graphics", "cpu-amd-ryzen-7-7840u-8c"),
        ("AMD Ryzen 5 3400G with Radeon Vega Graphics", "cpu-amd-ryzen-5-3400g-8c"),
        ("Intel(R) Xeon(R) Platinum 8488C", "cpu-intel-xeon-platinum-8488c-8c"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "cpu-intel-xeon-8c"),
        ("13th Gen Intel(R) Core(TM) i7-1365U", "cpu-intel-core-i7-1365u-8c"),
    ],
)
def test_linux_names_the_processor(machine, name, slug):
    (device,) = machine(cpuinfo=EPYC.format(name=name)).find()
    assert (device.kind, device.name, device.slug, device.uuid) == ("cpu", " ".join(name.split()), slug, "")


def test_machine_keys(machine, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (device,) = machine(cpuinfo=EPYC.format(name="AMD EPYC"), cores=2).find()
    assert device.machine == {
        "slug": "cpu-amd-epyc-2c",
        "memory_bytes": 16 * GIB,
        "power_limit_w": None,
        "partition": None,
        "locked_clocks": None,
        "driver": None,
        "arch": "x86_64",
        "cores": 2,
        "core_quota": None,
        "cpu_model": "AuthenticAMD 25 1 1",
    }


def test_an_arm_machine_is_known_by_its_part(machine, monkeypatch):
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    (device,) = machine(cpuinfo=ARM).find()
    assert (device.name, device.slug) == ("aarch64", "cpu-aarch64-8c")
    assert device.machine["cpu_model"] == "0x41 8 0xd0c 1"


def test_macos_has_no_affinity_and_no_proc(machine, monkeypatch):
    probe = machine(system="darwin")
    monkeypatch.delattr(psutil.Process, "cpu_affinity")
    monkeypatch.setattr(psutil, "cpu_count", lambda: 10)
    asked = []

    def run(command, **options):
        asked.append(command)
        return SimpleNamespace(stdout="Apple M2 Pro\n")

    monkeypatch.setattr(subprocess, "run", run)
    (device,) = probe.find()
    assert asked == [("sysctl", "-n", "machdep.cpu.brand_string")]
    assert (device.name, device.slug) == ("Apple M2 Pro", "cpu-apple-m2-pro-10c")
    assert (device.machine["cores"], device.machine["cpu_model"]) == (10, None)


def test_macos_without_sysctl(machine, monkeypatch):
    def run(command, **options):
        raise FileNotFoundError(command[0])

    probe = machine(system="darwin")
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(platform, "processor", lambda: "arm")
    assert probe.find()[0].slug == "cpu-arm-8c"


class FakeWinreg(types.ModuleType):
    HKEY_LOCAL_MACHINE = 0x80000002

    def __init__(self, values):
        super().__init__("winreg")
        self.values = values

    def OpenKey(self, root, path):  # noqa: N802  (its real name)
        if path not in self.values:
            raise FileNotFoundError(path)
        return contextlib.nullcontext(path)

    def QueryValueEx(self, key, name):  # noqa: N802  (its real name)
        return self.values[key][name], 1


@pytest.mark.parametrize(
    ("values", "slug"),
    [
        (
            {r"HARDWARE\DESCRIPTION\System\CentralProcessor\0": {"ProcessorNameString": "AMD Ryzen 9 7950X "}},
            "cpu-amd-ryzen-9-7950x-8c",
        ),
        ({}, "cpu-amd64-family-25-8c"),
    ],
)
def test_windows_asks_the_registry(machine, monkeypatch, values, slug):
    monkeypatch.setattr(platform, "processor", lambda: "AMD64 Family 25")
    monkeypatch.setitem(sys.modules, "winreg", FakeWinreg(values))
    assert machine(system="win32").find()[0].slug == slug


@pytest.mark.parametrize(
    ("files", "quota", "slug"),
    [
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None, "cpu-amd-epyc-8c"),
        ({"sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2.5, "cpu-amd-epyc-2c"),
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5, "cpu-amd-epyc-1c"),
        ({"sys/fs/cgroup/cpu.max": "6400000 100000\n"}, 64.0, "cpu-amd-epyc-8c"),
        (
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
            4.0,
            "cpu-amd-epyc-4c",
        ),
        (
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
            None,
            "cpu-amd-epyc-8c",
        ),
    ],
)
def test_a_container_is_as_large_as_its_control_group(machine, files, quota, slug):
    (device,) = machine(cpuinfo=EPYC.format(name="AMD EPYC"), files=files).find()
    assert (device.machine["core_quota"], device.slug) == (quota, slug)


@pytest.mark.parametrize(
    ("files", "memory_bytes"),
    [
        ({"sys/fs/cgroup/memory.max": "max\n"}, 16 * GIB),
        ({"sys/fs/cgroup/memory.max": f"{4 * GIB}\n"}, 4 * GIB),
        ({"sys/fs/cgroup/memory.max": f"{64 * GIB}\n"}, 16 * GIB),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16 * GIB),
    ],
)
def test_a_containers_memory_is_that_of_its_control_group(machine, files, memory_bytes):
    assert machine(files=files).find()[0].machine["memory_bytes"] == memory_bytes


def test_health_holds_remarks_only(machine):
    probe = machine(
        cores=2,
        cpu_freq=SimpleNamespace(current=2445.43),
        cpu_times=SimpleNamespace(user=1.0, steal=13.5),
        getloadavg=(7.93, 3.0, 1.0),
        sensors_battery=SimpleNamespace(power_plugged=False),
        sensors_temperatures={"k10temp": [SimpleNamespace(current=61.0), SimpleNamespace(current=72.5)]},
    )
    assert probe.health(probe.find()[0]) == Health(
        remarks=(
            Remark("Load average of the last minute: 7.9 on 2 cores.", "load average", 7.93, usual=True),
            Remark("The machine runs on battery."),
        ),
        sm_clock_mhz=2445,
        temperature_c=72.5,
        memory_used_bytes=4 * GIB,
        capped={"processor time taken by other virtual machines": 13.5},
    )


def test_what_a_system_cannot_tell_is_none_and_never_zero(machine, monkeypatch):
    probe = machine(cpu_freq=SimpleNamespace(current=0.0))
    (device,) = probe.find()

    def fail(*arguments):
        raise OSError("not on this system")

    for name in ("cpu_times", "getloadavg", "sensors_battery", "virtual_memory"):
        monkeypatch.setattr(psutil, name, fail, raising=False)
    monkeypatch.delattr(psutil, "sensors_temperatures")
    assert probe.health(device) == Health()
    assert probe.memory_used_bytes(device) is None


def test_psutil_not_installed(machine, monkeypatch):
    probe = machine()
    (device,) = probe.find()
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(DeviceMissingError) as raised:
        probe.find()
    assert str(raised.value) == "the package psutil is not installed. Type: pip install psutil"
    assert probe.health(device) == Health()


def test_this_machine():
    probe = CpuProbe()
    (device,) = probe.find()
    assert device.slug.startswith("cpu-")
    assert device.slug.endswith("c")
    memory = device.machine["memory_bytes"]
    assert isinstance(memory, int)
    assert memory > GIB
    used = probe.memory_used_bytes(device)
    assert used is not None
    assert used > 0
    assert probe.health(device).reasons == ()
