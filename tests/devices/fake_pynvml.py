# ruff: noqa: N802  (functions are called as NVML calls them)
"""A stand-in for the library behind nvidia-ml-py: the real module's constants, structures and exceptions, on cards that
are described here. What a card does not support raises the exception that the real binding raises.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

import pynvml

MIB = 2**20


@dataclass
class Mig:
    profile: str
    uuid: str
    memory_mib: int
    instance: int
    named: bool = True
    pids: tuple[int, ...] = ()


@dataclass
class Card:
    name: str
    memory_mib: int
    capability: tuple[int, int] = (8, 0)
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    bus_id: str = "00000000:01:00.0"
    power_limit_mw: int = 400_000
    power_mw: int = 68_500
    energy_mj: int = 1_250_500
    used_mib: int = 4
    clocks: dict[int, int] = field(default_factory=lambda: {pynvml.NVML_CLOCK_SM: 1410, pynvml.NVML_CLOCK_MEM: 1215})
    max_clocks: dict[int, int] = field(default_factory=lambda: {1: 1410, 2: 1215})
    application_clocks: dict[int, int] = field(default_factory=lambda: {1: 1275, 2: 1215})
    default_clocks: dict[int, int] = field(default_factory=lambda: {1: 1275, 2: 1215})
    temperature: int = 34
    reasons: int = 0x1
    counters_ns: dict[int, int] = field(default_factory=dict)
    violation_ns: int = 0
    pids: tuple[int, ...] = ()
    ecc: int = 1
    mig_mode: int | None = None
    migs: tuple[Mig, ...] = ()
    virtualization: int = pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE
    unsupported: frozenset[str] = frozenset()
    lost: bool = False


class FakeNvml(types.ModuleType):
    """Give it to `sys.modules["pynvml"]`."""

    def __init__(self, *cards: Card, start: type[Exception] | None = None, driver: str | bytes = "580.159.04") -> None:
        super().__init__("pynvml")
        constants = {name: value for name, value in vars(pynvml).items() if not name.startswith("__")}
        self.__dict__.update({name: value for name, value in constants.items() if not name.startswith("nvmlDevice")})
        self.cards = cards
        self.driver = driver
        self.inits = 0
        self.calls: list[str] = []
        for name in dir(type(self)):
            if name.startswith("do_"):
                self.__dict__[name[3:]] = self._guarded(name[3:], getattr(self, name))
        self.start = start

    def _guarded(self, name: str, function: Any) -> Any:
        def call(handle: Any = None, *arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            card = handle[0] if isinstance(handle, tuple) else handle
            if isinstance(card, Card) and card.lost:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
            if isinstance(card, Card) and name in card.unsupported:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return function(*(() if handle is None else (handle,)), *arguments, **named)

        return call

    def do_nvmlInit(self) -> None:
        if self.start:
            raise self.start()
        self.inits += 1

    def do_nvmlSystemGetDriverVersion(self) -> str | bytes:
        return self.driver

    def do_nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def do_nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        if self.cards[index].lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self.cards[index]

    def do_nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        for card in self.cards:
            if card.uuid == uuid and not card.lost:
                return card
            for mig in card.migs:
                if mig.uuid == uuid:
                    return card, mig
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def do_nvmlDeviceGetPciInfo(self, card: Card) -> Any:
        return types.SimpleNamespace(busId=card.bus_id)

    def do_nvmlDeviceGetName(self, handle: Any) -> Any:
        if isinstance(handle, tuple):
            card, mig = handle
            return f"{card.name} MIG {mig.profile}" if mig.named else card.name
        return handle.name

    def do_nvmlDeviceGetUUID(self, handle: Any) -> Any:
        return handle[1].uuid if isinstance(handle, tuple) else handle.uuid

    def do_nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:
        total, used = (handle[1].memory_mib, 12) if isinstance(handle, tuple) else (handle.memory_mib, handle.used_mib)
        if version is None:
            return types.SimpleNamespace(total=total * MIB, used=(used + 500) * MIB, free=(total - used) * MIB)
        assert version == pynvml.nvmlMemory_v2
        card = handle[0] if isinstance(handle, tuple) else handle
        if "nvmlDeviceGetMemoryInfo_v2" in card.unsupported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return types.SimpleNamespace(total=total * MIB, used=used * MIB, reserved=500 * MIB, free=(total - used) * MIB)

    def do_nvmlDeviceGetEnforcedPowerLimit(self, card: Card) -> int:
        return _card_only(card).power_limit_mw

    def do_nvmlDeviceGetPowerUsage(self, card: Card) -> int:
        return _card_only(card).power_mw

    def do_nvmlDeviceGetTotalEnergyConsumption(self, card: Card) -> int:
        return _card_only(card).energy_mj

    def do_nvmlDeviceGetCudaComputeCapability(self, card: Card) -> tuple[int, int]:
        return card.capability

    def do_nvmlDeviceGetEccMode(self, card: Card) -> list[int]:
        return [card.ecc, card.ecc]

    def do_nvmlDeviceGetVirtualizationMode(self, card: Card) -> int:
        return card.virtualization

    def do_nvmlDeviceGetClockInfo(self, card: Card, clock: int) -> int:
        return _card_only(card).clocks[clock]

    def do_nvmlDeviceGetMaxClockInfo(self, card: Card, clock: int) -> int:
        return _card_only(card).max_clocks[clock]

    def do_nvmlDeviceGetApplicationsClock(self, card: Card, clock: int) -> int:
        return card.application_clocks[clock]

    def do_nvmlDeviceGetDefaultApplicationsClock(self, card: Card, clock: int) -> int:
        return card.default_clocks[clock]

    def do_nvmlDeviceGetTemperature(self, card: Card, sensor: int) -> int:
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return _card_only(card).temperature

    def do_nvmlDeviceGetCurrentClocksEventReasons(self, card: Card) -> int:
        return _card_only(card).reasons

    def do_nvmlDeviceGetCurrentClocksThrottleReasons(self, card: Card) -> int:
        return _card_only(card).reasons

    def do_nvmlDeviceGetFieldValues(self, card: Card, fields: list[int]) -> list[Any]:
        return [_field_value(_card_only(card), number) for number in fields]

    def do_nvmlDeviceGetViolationStatus(self, card: Card, policy: int) -> Any:
        assert policy == pynvml.NVML_PERF_POLICY_THERMAL
        return types.SimpleNamespace(referenceTime=1, violationTime=_card_only(card).violation_ns)

    def do_nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        pids = handle[1].pids if isinstance(handle, tuple) else handle.pids
        return [types.SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in pids]

    def do_nvmlDeviceGetMigMode(self, card: Card) -> list[int]:
        if card.mig_mode is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [card.mig_mode, card.mig_mode]

    def do_nvmlDeviceGetMaxMigDeviceCount(self, card: Card) -> int:
        return 7

    def do_nvmlDeviceGetMigDeviceHandleByIndex(self, card: Card, index: int) -> Any:
        if index >= len(card.migs):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return card, card.migs[index]

    def do_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> Any:
        return handle[0]

    def do_nvmlDeviceGetGpuInstanceId(self, handle: Any) -> Any:
        return handle[1].instance

    def do_nvmlDeviceGetComputeInstanceId(self, handle: Any) -> Any:
        return 0

    def do_nvmlDeviceGetAttributes(self, handle: Any) -> Any:
        return types.SimpleNamespace(gpuInstanceSliceCount=3, memorySizeMB=20_096)


def _card_only(handle: Any) -> Card:
    """Clocks, temperature and power are not supported on a MIG handle."""
    if isinstance(handle, tuple):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert isinstance(handle, Card)
    return handle


def _field_value(card: Card, number: int) -> Any:
    value = pynvml.c_nvmlFieldValue_t()
    value.fieldId = number
    value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    if number in card.counters_ns:
        value.value.ullVal = card.counters_ns[number]
    else:
        value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
    return value
