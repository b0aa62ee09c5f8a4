from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.machine.gpu_facts import bare_name, load_gpus, to_slug

TABLE = load_gpus()
GIB = 2**30


@pytest.mark.parametrize("gpu", TABLE.gpus, ids=lambda gpu: gpu.slug)
def test_every_row_is_sound(gpu):
    assert gpu.slug == to_slug(gpu.slug)
    assert gpu.slug == gpu.family or gpu.slug.startswith(f"{gpu.family}-")
    assert re.fullmatch(r"sm_\d{2,3}|gfx[0-9a-f]{3,4}", gpu.arch)
    assert gpu.vendor == ("amd" if gpu.arch.startswith("gfx") else "nvidia")
    assert 8 <= gpu.memory_gb <= 288
    assert gpu.bandwidth_gb_s is None or 300 <= gpu.bandwidth_gb_s <= 8000
    assert gpu.fp16_tflops is None or 25 <= gpu.fp16_tflops <= 2600
    assert gpu.fp16_accumulate_tflops is None or (gpu.fp16_tflops or 0) < gpu.fp16_accumulate_tflops
    assert gpu.bf16 is (gpu.arch not in {"sm_70", "sm_75"})
    assert TABLE.facts(gpu.slug) == gpu
    assert TABLE.family_of(gpu.slug) == gpu.family


def test_slugs_are_unique():
    assert len(set(TABLE.slugs)) == len(TABLE.gpus)


def test_a_size_in_a_slug_is_the_size_of_the_card():
    for gpu in TABLE.gpus:
        size = re.search(r"-(\d+)gb$", gpu.slug)
        assert size is None or int(size.group(1)) == gpu.memory_gb


@pytest.mark.parametrize(
    ("name", "gib", "slug"),
    [
        ("NVIDIA A100-SXM4-40GB", 39.6, "a100-sxm4-40gb"),
        ("NVIDIA A100-PCIE-40GB", 39.6, "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", 80, "a100-pcie-80gb"),
        ("NVIDIA A800 80GB PCIe", 80, "a800-pcie-80gb"),
        ("NVIDIA H100 PCIe", 79.6, "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", 93.6, "h100-nvl-94gb"),
        ("NVIDIA H200 NVL", 140.4, "h200-nvl"),
        ("NVIDIA GH200 480GB", 95.6, "gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", 143.7, "gh200-144gb"),
        ("NVIDIA B200", 179.1, "b200"),
        ("NVIDIA L40S", 45, "l40s"),
        ("NVIDIA A10", 22.5, "a10"),
        ("NVIDIA A10G", 22.5, "a10g"),
        ("NVIDIA Tesla T4", 15, "t4"),
        ("Quadro RTX 8000", 47.5, "quadro-rtx-8000"),
        ("NVIDIA GeForce RTX 3060", 8, "rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 3060", 12, "rtx-3060-12gb"),
        ("NVIDIA GeForce RTX 3080", 10, "rtx-3080-10gb"),
        ("NVIDIA GeForce RTX 3080", 12, "rtx-3080-12gb"),
        ("nvidia geforce rtx 5090", 31.8, "rtx-5090"),
        # Not in the table: the name, and the memory unless the name says it.
        ("NVIDIA GeForce RTX 3060", None, "rtx-3060"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 6, "rtx-3060-laptop-gpu-6gb"),
        ("NVIDIA RTX A6000", 48, "rtx-a6000-48gb"),
        ("NVIDIA A100-SXM-64GB", 64, "a100-sxm-64gb"),
        ("", 16, "unknown-gpu-16gb"),
    ],
)
def test_slug_of_a_name(name, gib, slug):
    assert TABLE.slug_of(name, None if gib is None else int(gib * GIB)) == slug


@pytest.mark.parametrize(
    ("slug", "family"),
    [
        ("a100-sxm4-40gb-mig-1g-5gb", "a100"),
        ("mi300x-cpx-nps4", "mi300x"),
        ("a100-sxm-64gb", "a100"),
        ("rtx-3060-laptop-gpu-6gb", "rtx-3060-laptop-gpu-6gb"),
        ("rtx-3080-ti-12gb", "rtx-3080-ti-12gb"),
        ("a100x-80gb", "a100x-80gb"),
    ],
)
def test_family_of_a_slug(slug, family):
    assert TABLE.family_of(slug) == family


def test_a_partition_has_the_facts_of_its_card():
    assert TABLE.facts("a100-sxm4-40gb-mig-1g-5gb") == TABLE.facts("a100-sxm4-40gb")
    assert TABLE.facts("mi300x-cpx-nps4") == TABLE.facts("mi300x")
    assert TABLE.facts("a100") is None


def test_cards_that_live_at_their_power_cap():
    capped = {gpu.family for gpu in TABLE.gpus if "software power cap" in gpu.normal_throttle}
    assert capped == {"t4", "l4", "h100", "h200"}


def test_vendor_words_come_and_go():
    assert bare_name("NVIDIA Tesla T4") == bare_name("Tesla T4") == bare_name("T4") == "T4"
    assert bare_name("AMD Instinct MI300X OAM: 750W SKU") == "MI300X OAM: 750W SKU"


@given(st.text(), st.none() | st.integers(0, 2**40))
def test_every_name_has_a_file_name(name, memory_bytes):
    slug = TABLE.slug_of(name, memory_bytes)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug)
