"""The table of GPUs: which name is which card, and what the card can do at most.

Standard library only: probes use it, and workers import probes. The figures are in `data/gpus.json`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_sdperf.core.device import DeviceKind

Vendor = Literal["nvidia", "amd"]

# What stands for any card of a vendor: its name, and that of its software.
KINDS: Mapping[str, DeviceKind] = {"nvidia": "cuda", "cuda": "cuda", "amd": "rocm", "rocm": "rocm"}
VENDOR_NAMES: Mapping[str, str] = {"cuda": "NVIDIA", "rocm": "AMD"}

# The variables that hide GPUs from a program.
VISIBILITY_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")

_VENDOR_WORDS = re.compile(r"^(nvidia|tesla|quadro|geforce|amd|radeon|instinct)\s+", re.IGNORECASE)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
_PART = re.compile(r"-(mig|dpx|tpx|qpx|cpx)(-.*)?$")
_GFX, _SM = re.compile(r"gfx[0-9a-f]+"), re.compile(r"sm-\d+[a-z]?")  # architectures, as slugs
_SIZE = re.compile(r"(^|-)\d+gb?(-|$)")
# A word after the family's name that makes it another chip, or the same chip at another power.
_OTHER_CHIP = frozenset({"ti", "super", "d", "laptop", "mobile", "max"})
# NVML and amdsmi report less than the data sheet (ECC, firmware) or more (MiB taken for MB).
_MEMORY_SLACK = 0.15


@dataclass(frozen=True)
class GpuFacts:
    """One card.

    Attributes:
        slug: File name of its baselines; holds the memory size wherever the card is sold in several.
        family: What `--gpu` accepts for any card of this kind (`a100`).
        vendor: `nvidia` or `amd`.
        arch: `sm_80`, `gfx942`, ...
        memory_gb: Size on the data sheet.
        bandwidth_gb_s: Peak memory bandwidth in GB/s; None if not known.
        fp16_tflops: Peak dense fp16 TFLOP/s of the matrix units with fp32 accumulation; None if not known.
        pattern: Regular expression for the whole name without vendor words.
        fp16_accumulate_tflops: The same with fp16 accumulation, where it is higher (GeForce).
        bf16: Whether the matrix units compute in bfloat16.
        normal_throttle: Throttle reasons that the card shows in healthy operation.
        pci_ids: PCI device ids (`0x74a1`), for drivers that report no name.
    """

    slug: str
    family: str
    vendor: Vendor
    arch: str
    memory_gb: float
    bandwidth_gb_s: float | None
    fp16_tflops: float | None
    pattern: str
    fp16_accumulate_tflops: float | None = None
    bf16: bool = True
    normal_throttle: tuple[str, ...] = ()
    pci_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class GpuTable:
    """Every card that this project knows by name."""

    gpus: tuple[GpuFacts, ...]

    @property
    def slugs(self) -> tuple[str, ...]:
        """Every exact slug, sorted."""
        return tuple(sorted(gpu.slug for gpu in self.gpus))

    @property
    def families(self) -> tuple[str, ...]:
        """Every family, sorted."""
        return tuple(sorted({gpu.family for gpu in self.gpus}))

    def facts(self, slug: str) -> GpuFacts | None:
        """Return the card with this slug (a partition's slug finds its whole card); None if it is not in the table."""
        whole = _PART.sub("", slug)
        return next((gpu for gpu in self.gpus if gpu.slug == whole), None)

    def names_of(self, slug: str, *, kind: str = "", arch: object = None) -> set[str]:
        """Return every name that `--gpu` takes for a card, other than its number and its UUID.

        Args:
            slug: Of the card.
            kind: Of the device, where the card is not in the table.
            arch: What its driver calls its architecture, likewise.
        """
        known = self.facts(slug)
        kind = KINDS[known.vendor] if known else kind
        arch = str(arch or (known.arch if known else ""))
        names = {slug, self.family_of(slug), to_slug(arch), *(name for name, meant in KINDS.items() if meant == kind)}
        return names - {""}

    def kind_of(self, name: str) -> DeviceKind | None:
        """Return the kind of device that a name means, wherever such a device is; None if it names none.

        Args:
            name: As `to_slug` writes it: a vendor or its software, a family, a slug or an architecture.
        """
        of_family = next((gpu for gpu in self.gpus if gpu.family == name), None)
        known = of_family or self.facts(name)
        if known is not None or name in KINDS:
            return KINDS[known.vendor if known else name]
        return "rocm" if _GFX.fullmatch(name) else "cuda" if _SM.fullmatch(name) else None

    def match(self, name: str, memory_bytes: int | None = None, *, pci_id: str = "") -> GpuFacts | None:
        """Find a card by the name that its driver reports.

        Args:
            name: Such as `NVIDIA A100 80GB PCIe` or `AMD Instinct MI300X OAM: 750W SKU`.
            memory_bytes: Total memory, which tells apart cards of one name; None if unknown.
            pci_id: PCI device id, used where the name says nothing.

        Returns:
            The card; None if no row matches, or if several do and the memory does not decide.
        """
        bare = bare_name(name)
        rows = [gpu for gpu in self.gpus if re.fullmatch(gpu.pattern, bare, re.IGNORECASE)]
        rows = rows or [gpu for gpu in self.gpus if pci_id and pci_id.lower() in gpu.pci_ids]
        if len(rows) > 1:
            rows = [gpu for gpu in rows if memory_bytes and _fits(memory_bytes, gpu.memory_gb)]
        return rows[0] if len(rows) == 1 else None

    def slug_of(self, name: str, memory_bytes: int | None = None, *, pci_id: str = "") -> str:
        """Return the slug of a card; an unknown card's is made of its name and memory. Arguments as in `match`."""
        known = self.match(name, memory_bytes, pci_id=pci_id)
        if known is not None:
            return known.slug
        slug = to_slug(bare_name(name)) or "unknown-gpu"
        if memory_bytes and not _SIZE.search(slug):
            slug = f"{slug}-{round(memory_bytes / 2**30)}gb"
        return slug

    def family_of(self, slug: str) -> str:
        """Return the family of a slug, also of a card that is not in the table (`a100-sxm-64gb` is an A100).

        Returns:
            A family, or the slug itself where none fits.
        """
        known = self.facts(slug)
        if known is not None:
            return known.family
        for family in sorted(self.families, key=len, reverse=True):
            rest = slug.removeprefix(f"{family}-")
            if rest != slug and rest.split("-")[0] not in _OTHER_CHIP:
                return family
        return slug


@functools.cache
def load_gpus() -> GpuTable:
    """Read the table that ships with the package."""
    data = json.loads((Path(__file__).parents[2] / "data" / "gpus.json").read_text(encoding="utf-8"))
    rows = [{**row, **{key: tuple(row.get(key, ())) for key in ("normal_throttle", "pci_ids")}} for row in data["gpus"]]
    return GpuTable(tuple(GpuFacts(**row) for row in rows))


def bare_name(name: str) -> str:
    """Drop the words that come and go with the driver's version (`NVIDIA Tesla T4` -> `T4`)."""
    bare = " ".join(name.split())
    while (shorter := _VENDOR_WORDS.sub("", bare)) != bare:
        bare = shorter
    return bare


def to_slug(*words: str) -> str:
    """Join words into lower-case letters, digits and single dashes."""
    return _NOT_IN_SLUG.sub("-", " ".join(words).lower()).strip("-")


def _fits(memory_bytes: int, memory_gb: float) -> bool:
    return abs(memory_bytes / 2**30 - memory_gb) <= _MEMORY_SLACK * memory_gb
