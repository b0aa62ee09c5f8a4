"""Operators that float16 builds keep in float32: part of the cases that have them, and of no other."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_sdperf import builtins
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.engine_requests import parse_engines
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.selector import Selector
from pytest_sdperf.checks.fusions.check import Fused
from pytest_sdperf.checks.reporting.gates import concerns
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import Selection
from pytest_sdperf.core.values import Case

OPS = ("unet:MultiHeadAttention", "vae_decoder:MatMul")


def choices(axes=Axes.ENGINE, *, components=("unet",), optimizations=("fp32", "fmha"), engines="ort-cpu,torch"):
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    asked = Selection(
        engines=parse_engines(engines, catalog, {}, device_kind="cpu"),
        components=components,
        optimizations=optimizations,
        fp32_ops=OPS,
    )
    return Selector(asked, catalog, {}, "cpu").choose(axes, Marks())


def test_only_float16_graphs_have_them():
    found = {(choice.case.engine, choice.case.optimization): choice.case.fp32_ops for choice in choices()}
    assert found == {
        ("ort-cpu", "fp32"): "",
        ("ort-cpu", "fmha"): OPS[0],
        ("torch", "fp32"): "",
        ("torch", "fmha"): "",
    }


@pytest.mark.parametrize(
    ("component", "ops"),
    [("unet", OPS[0]), ("vae_decoder", OPS[1]), ("text_encoder", ""), ("pipeline", ",".join(OPS))],
)
def test_a_component_has_its_own_and_a_pipeline_all(component, ops):
    (choice,) = choices(components=(component,), optimizations=("fmha",), engines="ort-cpu")
    assert choice.case.fp32_ops == ops


def test_id_and_key_of_a_build_say_so():
    native, _ = choices(Axes.BUILD, optimizations=("fmha",))
    assert native.id == "sd15-thin-unet-at-fmha-by-native-from-dynamo-fp32-unet-MultiHeadAttention"
    assert " fp32_ops=unet:MultiHeadAttention " in native.case.key
    # The number of fused operators is the same, and so is what is stored of it.
    stored = Fused().key(dataclasses.replace(native.case, fuser="ort"))
    assert stored
    assert "fp32_ops" not in stored


def test_a_gate_on_one_build_does_not_concern_the_other():
    plain = Case("sd15", "unet", "", "fmha")
    kept = Case("sd15", "unet", "", "fmha", fp32_ops=OPS[0])
    assert [concerns(plain, kept), concerns(kept, kept)] == [False, True]


def test_a_case_that_was_stored_before_has_none():
    assert (
        convert({"model": "sd15", "component": "unet", "engine": "torch", "optimization": "fp16"}, Case).fp32_ops == ""
    )
