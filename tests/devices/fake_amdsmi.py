"""A stand-in for ROCm's module amdsmi 7, on cards that are described here. It says "not available" as the real one
does: by an exception with a status code, by the text "N/A", by the largest unsigned number, by a 0 that cannot be.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

MIB = 2**20
NOT_SUPPORTED, NO_PERM, DRIVER_NOT_LOADED = 2, 10, 34
MAX_UINT32, MAX_UINT64 = 2**32 - 1, 2**64 - 1


class AmdSmiException(Exception):  # noqa: N818  (its real name)
    pass


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, err_code: int) -> None:
        super().__init__(err_code)
        self.err_code = err_code

    def get_error_code(self) -> int:
        return self.err_code

    def __str__(self) -> str:
        return f"Error code:\n\t{self.err_code} | AMDSMI_STATUS_{self.err_code} - as the library words it"


class AmdSmiClkType(IntEnum):
    GFX = 1
    MEM = 5


class AmdSmiMemoryType(IntEnum):
    VRAM = 0


class AmdSmiTemperatureType(IntEnum):
    EDGE = 0
    HOTSPOT = 1
    VRAM = 2
    JUNCTION = 1


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0


class AmdSmiVirtualizationMode(IntEnum):
    UNKNOWN = 0
    BAREMETAL = 1
    HOST = 2
    GUEST = 3
    PASSTHROUGH = 4


@dataclass
class Card:
    market_name: str
    memory_mib: int
    graphics_version: str
    device_id: str = "0x74a1"
    serial: str = "0x00A1B2C3D4E5F607"
    product_name: str = "N/A"
    hip_id: Any = 0
    hip_uuid: str = ""
    bdf: str = "0000:05:00.0"
    used_mib: int = 283
    compute_partition: str = ""
    memory_partition: str = ""
    power_cap: int = 750_000_000
    current_power: Any = 142
    average_power: Any = "N/A"
    socket_power: Any = 142
    energy: dict[str, Any] = field(
        default_factory=lambda: {"energy_accumulator": 2_000_000, "counter_resolution": 15.25, "timestamp": 7}
    )
    gfx_clock: dict[str, Any] = field(default_factory=lambda: {"clk": 132, "max_clk": 2100, "clk_locked": False})
    mem_clock: dict[str, Any] = field(default_factory=lambda: {"clk": 900, "max_clk": 1300, "clk_locked": False})
    temperatures: dict[int, int] = field(default_factory=lambda: {1: 41})
    violation: dict[str, Any] | None = None
    processes: list[dict[str, Any]] = field(default_factory=list)
    virtualization: AmdSmiVirtualizationMode = AmdSmiVirtualizationMode.BAREMETAL
    unsupported: frozenset[str] = frozenset()


class FakeAmdsmi(types.ModuleType):
    """Give it to `sys.modules["amdsmi"]`."""

    AmdSmiException = AmdSmiException
    AmdSmiLibraryException = AmdSmiLibraryException
    AmdSmiClkType = AmdSmiClkType
    AmdSmiMemoryType = AmdSmiMemoryType
    AmdSmiTemperatureType = AmdSmiTemperatureType
    AmdSmiTemperatureMetric = AmdSmiTemperatureMetric

    def __init__(self, *cards: Card, start: int | None = None) -> None:
        super().__init__("amdsmi")
        self.cards = cards
        self.start = start
        for name in dir(type(self)):
            if name.startswith("get_"):
                self.__dict__[f"amdsmi_{name}"] = self._guarded(f"amdsmi_{name}", getattr(self, name))

    def _guarded(self, name: str, function: Any) -> Any:
        def call(card: Card, *arguments: Any) -> Any:
            if name in card.unsupported:
                raise AmdSmiLibraryException(NOT_SUPPORTED)
            return function(card, *arguments)

        return call

    def amdsmi_init(self) -> None:
        if self.start is not None:
            raise AmdSmiLibraryException(self.start)

    def amdsmi_get_processor_handles(self) -> list[Card]:
        return list(self.cards)

    def get_gpu_enumeration_info(self, card: Card) -> dict[str, Any]:
        return {"drm_render": 128, "drm_card": 1, "hsa_id": 1, "hip_id": card.hip_id, "hip_uuid": card.hip_uuid}

    def get_gpu_device_bdf(self, card: Card) -> str:
        return card.bdf

    def get_gpu_asic_info(self, card: Card) -> dict[str, Any]:
        return {
            "market_name": card.market_name,
            "vendor_id": "0x1002",
            "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
            "device_id": card.device_id,
            "asic_serial": card.serial,
            "num_compute_units": 304,
            "target_graphics_version": card.graphics_version,
        }

    def get_gpu_board_info(self, card: Card) -> dict[str, Any]:
        return {"model_number": "102-G30211-0C", "product_name": card.product_name}

    def get_gpu_driver_info(self, card: Card) -> dict[str, Any]:
        return {"driver_name": "amdgpu", "driver_version": "6.14.14", "driver_date": "N/A"}

    def get_gpu_virtualization_mode(self, card: Card) -> dict[str, Any]:
        return {"mode": card.virtualization}

    def get_gpu_compute_partition(self, card: Card) -> str:
        return card.compute_partition

    def get_gpu_memory_partition(self, card: Card) -> str:
        return card.memory_partition

    def get_gpu_memory_total(self, card: Card, kind: Any) -> int:
        assert kind is AmdSmiMemoryType.VRAM
        return card.memory_mib * MIB

    def get_gpu_memory_usage(self, card: Card, kind: Any) -> int:
        assert kind is AmdSmiMemoryType.VRAM
        return card.used_mib * MIB

    def get_gpu_vram_usage(self, card: Card) -> dict[str, int]:
        return {"vram_total": card.memory_mib, "vram_used": card.used_mib}

    def get_power_cap_info(self, card: Card) -> dict[str, int]:
        return {"power_cap": card.power_cap, "default_power_cap": card.power_cap, "min_power_cap": 0}

    def get_power_info(self, card: Card) -> dict[str, Any]:
        return {
            "socket_power": card.socket_power,
            "current_socket_power": card.current_power,
            "average_socket_power": card.average_power,
            "power_limit": 750,
        }

    def get_energy_count(self, card: Card) -> dict[str, Any]:
        return card.energy

    def get_clock_info(self, card: Card, kind: Any) -> dict[str, Any]:
        return card.gfx_clock if kind is AmdSmiClkType.GFX else card.mem_clock

    def get_temp_metric(self, card: Card, sensor: Any, metric: Any) -> int:
        assert metric is AmdSmiTemperatureMetric.CURRENT
        if sensor not in card.temperatures:
            raise AmdSmiLibraryException(NOT_SUPPORTED)
        return card.temperatures[sensor]

    def get_violation_status(self, card: Card) -> dict[str, Any]:
        if card.violation is None:
            raise AmdSmiLibraryException(NOT_SUPPORTED)
        return card.violation

    def get_gpu_process_list(self, card: Card) -> list[dict[str, Any]]:
        return card.processes
