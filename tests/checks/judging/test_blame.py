"""What is said of the kernels of a case that became slower or faster."""

from __future__ import annotations

import dataclasses

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from sample_values import measurement, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.core.values.outcomes import Outcome

GPU = Policy()
WGMMA, LEGACY = (
    "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc",
    "implicit_convolve_sgemm<float, __half>",
)


def with_kernels(of, *, slowest=(), **milliseconds):
    """Return a measurement, or a session, whose processes saw kernels: `convolution_nhwc=1.8` took 1.8 ms."""
    kernels = {kind.replace("_", "-"): {"count": 50, "seconds": ms / 1e3} for kind, ms in milliseconds.items()}
    names = [{"name": name, "kind": kind, "count": 50, "seconds": 1e-3} for name, kind in slowest]
    facts = {"kernels": kernels, **({"kernels_slowest": names} if names else {})}
    samples = tuple(
        dataclasses.replace(one, facts={**one.facts, **facts}, memory_source="device") for one in of.samples
    )
    replace = msgspec.structs.replace if isinstance(of, msgspec.Struct) else dataclasses.replace
    return replace(of, samples=samples)


def details(now, *before):
    verdict = judge(now, stored(*before), policy=GPU)[0]
    return verdict.outcome, verdict.details


BEFORE = with_kernels(session(), slowest=[(WGMMA, "convolution-nhwc")], convolution_nhwc=4, gemm=4)


def test_the_kinds_that_take_longer_are_named_and_what_is_new_among_the_slowest():
    now = with_kernels(measurement(16, 16, 16.1), slowest=[(LEGACY, "convolution")], convolution=9.9, gemm=4.1)
    assert details(now, BEFORE) == (
        Outcome.REGRESSED,
        (f"convolution kernels take 9.90 ms, before none; among the slowest is now {LEGACY}",),
    )


def test_a_gpu_that_waits_for_its_host_is_no_kernels_fault():
    now = with_kernels(measurement(16, 16, 16.1), slowest=[(WGMMA, "convolution-nhwc")], convolution_nhwc=4, gemm=4)
    assert details(now, BEFORE) == (Outcome.REGRESSED, ("between kernels the GPU idles 8.00 ms, before 2.00 ms",))


def busy(of, milliseconds):
    """Return a measurement, or a session, whose processes know for how long the GPU was busy."""
    samples = tuple(dataclasses.replace(s, facts={**s.facts, "gpu_busy_s": milliseconds / 1e3}) for s in of.samples)
    replace = msgspec.structs.replace if isinstance(of, msgspec.Struct) else dataclasses.replace
    return replace(of, samples=samples)


def test_kernels_that_run_side_by_side_do_not_hide_that_the_gpu_idles():
    now, before = with_kernels(measurement(16, 16, 16.1), gemm=16), with_kernels(session(), gemm=16)
    told = ("between kernels the GPU idles 7.00 ms, before 1.00 ms",)
    assert details(busy(now, 9), busy(before, 9)) == (Outcome.REGRESSED, told)
    # Where an older session does not know it, kernels are added up on both sides.
    assert details(busy(now, 9), before) == (Outcome.REGRESSED, ())


def test_what_became_faster_is_named_too_the_largest_first():
    now = with_kernels(measurement(5, 5, 5.1), convolution_nhwc=1, gemm=2)
    assert details(now, BEFORE) == (
        Outcome.IMPROVED,
        ("convolution-nhwc kernels take 1.00 ms, before 4.00 ms", "gemm kernels take 2.00 ms, before 4.00 ms"),
    )


def test_where_nobody_saw_kernels_nothing_is_said():
    slower = measurement(16, 16, 16.1)
    assert details(with_kernels(slower, gemm=9), session()) == (Outcome.REGRESSED, ())
    assert details(slower, session()) == (Outcome.REGRESSED, ())


def test_a_case_that_held_needs_no_explanation():
    assert details(with_kernels(measurement(), gemm=9), BEFORE) == (Outcome.HELD, ())


@given(
    st.dictionaries(st.sampled_from(["gemm", "norm", "copy", "convolution"]), st.floats(0, 30), max_size=4),
    st.dictionaries(st.sampled_from(["gemm", "norm", "copy", "convolution"]), st.floats(0, 30), max_size=4),
)
def test_whatever_kernels_there_are_at_most_three_lines_are_said(now, before):
    outcome, told = details(with_kernels(measurement(16, 16, 16.1), **now), with_kernels(session(), **before))
    assert outcome is Outcome.REGRESSED
    assert len(told) <= 3
