"""What the drift of a case needs, and why it may not apply."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sample_values import case

from pytest_sdperf.checks.precision.check import dtypes_of, not_applicable, single_of


def runner(dtype="float16", *, whole=True, exporter="dynamo", optimization="fp16", has_module=True):
    return SimpleNamespace(
        case=case(exporter=exporter, optimization=optimization),
        is_pipeline=whole,
        dtype=dtype,
        context=SimpleNamespace(settings=SimpleNamespace(selection=SimpleNamespace(has_module=has_module))),
    )


@pytest.mark.parametrize(
    ("about", "dtype", "text"),
    [
        (runner(), "", ""),
        (runner("float32"), "bfloat16", ""),
        (runner("float32"), "", "not applicable: float32 is what half precision is compared with"),
        (
            runner(whole=False),
            "",
            "not applicable: only a whole request has denoising steps; name the component pipeline",
        ),
        (
            runner(exporter="external", optimization="as-is"),
            "",
            "not applicable: graphs that are taken as they are have one dtype",
        ),
        (
            runner(exporter="external", has_module=False),
            "",
            (
                "not applicable: there are no torch weights that could be run in both dtypes; type "
                "--sdperf-weights=FOLDER with those that the graphs were exported from"
            ),
        ),
    ],
)
def test_where_it_does_not_apply_it_is_said_why(about, dtype, text):
    assert not_applicable(about, dtype) == text


def test_torch_runs_in_the_types_that_are_compared():
    assert dtypes_of(runner()) == ("float32", "float16")
    assert dtypes_of(runner("float32")) == ("float64", "float32", "float16", "bfloat16")


def test_single_precision_is_the_same_case_at_the_first_optimization():
    half = case(component="pipeline", optimization="bias-add", fp32_ops="unet:MatMul")
    assert single_of(half) == case(component="pipeline", optimization="fp32", fp32_ops="")
