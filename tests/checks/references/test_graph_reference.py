"""Graphs that are compared with a float32 export: no fault gets into that, and no optimizer excuses itself."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from external_folders import make_unet, write
from wrong_optimizer import HIT, make_catalog

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.onnx_folder import ONNX_REFERENCE, OnnxFolder
from pytest_sdperf.checks.agreement import check as agreement
from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.tensors import relative_l2
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.references import float32_graph
from pytest_sdperf.checks.references.float32_graph import as_rounding
from pytest_sdperf.checks.references.stored import reference_keys
from pytest_sdperf.checks.replay import repeats
from pytest_sdperf.checks.replay.judging import judge_replay
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.reference_error import MOST_ROUNDING
from pytest_sdperf.core.settings import EngineRequest, Selection, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.devices.cpu import CpuProbe

FAULT = "numerics-one-percent-high"
RANDOM = np.random.default_rng(0)
EXACT = RANDOM.standard_normal((3, 1, 4, 8, 8)).astype(np.float32)
MOVED = (
    "onnxruntime itself moves the float32 reference by up to 1.00e-02 when it optimizes its graph. That is no rounding "
    "of float32: no more than 2.44e-04 of it counts."
)


@pytest.fixture
def runner_of(tmp_path):
    """Return what executes a tiny text encoder that was exported, and is compared with the very same export."""
    path = write(tmp_path / "given", "text_encoder", make_unet())
    folders = {"folder": OnnxFolder(path.parents[1]), "reference": OnnxFolder(path.parents[1], option=ONNX_REFERENCE)}

    def make(model: str = "tiny-text", altered: str = "", **options: str) -> CaseRunner:
        selection = Selection(onnx_dir=path.parents[1], onnx_reference=path.parents[1])
        settings = Settings(cache_dir=tmp_path / "cache", in_process=True, selection=selection)
        catalog, cache = make_catalog(), Cache(tmp_path / "cache", size_bytes=10**9)
        builder = Builder(catalog, settings, cache, say=lambda text: None, **folders)
        bench = RunContext(
            settings=settings, catalog=catalog, device=Device("cpu", "a CPU", "cpu"), probe=CpuProbe(),
            builder=builder, cache=cache, folder=Path(tmp_path), say=lambda text: None,
        )  # fmt: skip
        case = Case(
            model, "text_encoder", "ort-cpu", "as-is", exporter="external", opset=18,
            shapes="static", weights="onnx-0123",
            height=128, width=128, engine_options=tuple(options.items()),
        )  # fmt: skip
        return CaseRunner(case, EngineRequest("ort-cpu", "ort-cpu", tuple(options.items())), bench, altered)

    return make


def test_a_fault_that_is_planted_into_a_case_is_in_nothing_that_it_is_compared_with(runner_of):
    (faulty,) = agreement.agree(runner_of(altered=FAULT))
    assert (faulty.passed, faulty.by) == (False, "onnxruntime")
    assert faulty.error == pytest.approx(0.01, rel=1e-3)
    assert faulty.reference_error < 1e-6
    (healthy,) = agreement.agree(runner_of())  # with the same cache
    assert healthy.passed
    assert healthy.error < 1e-6


def test_what_is_to_be_a_reference_is_refused_with_a_fault_in_it(runner_of):
    with pytest.raises(ValueError, match="alters") as raised:
        reference_keys(runner_of(altered=FAULT), {}, code=())
    assert str(raised.value) == (
        "numerics-one-percent-high alters what is to be a reference; make it with as_reference()"
    )


def test_an_optimizer_that_makes_a_graph_wrong_is_no_reference_error_for_itself(runner_of):
    (wrong,) = agreement.agree(runner_of(HIT))
    assert not wrong.passed
    assert (wrong.error, wrong.limit) == (pytest.approx(0.01, rel=1e-3), pytest.approx(2 * MOST_ROUNDING, rel=1e-3))
    assert sentences(wrong) == (
        "The component has a relative L2 error 1.00e-02 against onnxruntime float32; plain onnxruntime float32 has "
        f"2.44e-04, so at most 4.88e-04 passes; the worst element is {wrong.culprit}. {MOVED}"
    )
    (right,) = agreement.agree(runner_of(HIT, graph_optimizations="off"))
    assert (right.passed, right.told) == (True, "")


def test_a_reference_error_of_many_steps_has_a_bound_at_each():
    shares = np.array([1e-6, 1e-2, 1e-3])
    rough = {
        "step_latents": (EXACT * (1 + shares[:, None, None, None, None])).astype(np.float32),
        "image": EXACT[0] * np.float32(1 + 1e-7),
        "unet_calls": np.array(3),
    }
    exact = {"step_latents": EXACT, "image": EXACT[0], "unet_calls": np.array(3)}
    nearer, told = as_rounding(rough, exact, names=("step_latents", "image"))
    errors = [relative_l2(one, other) for one, other in zip(nearer["step_latents"], EXACT, strict=True)]
    assert errors == [pytest.approx(size, rel=0.1) for size in (1e-6, MOST_ROUNDING, MOST_ROUNDING)]
    assert nearer["step_latents"].dtype == np.float32
    assert nearer["image"] is rough["image"]
    assert told == MOVED


def test_a_reference_error_that_rounds_is_left_alone():
    rough = {"out": EXACT * np.float32(1 + 1e-6)}
    assert as_rounding(rough, {"out": EXACT}, names=("out",)) == (rough, "")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reference_error_that_is_not_finite_stays_none(bad):
    rough = {"out": np.full_like(EXACT, bad)}
    assert as_rounding(rough, {"out": EXACT}, names=("out",)) == (rough, "")


# ---------------------------------------------------------------------------------------------------------- replay


@pytest.fixture
def without_torch(monkeypatch):
    """Let no process of this test import torch."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)


def test_equal_calls_are_replayed_beside_an_export_where_there_is_no_torch(runner_of, without_torch):
    runner = runner_of()
    found = repeats.repeat(runner, repeats=2)
    assert (found.by, found.reference, found.dtype, len(found.answers)) == ("onnxruntime", "float32", "float32", 1)
    assert [spread.equal for spread in found.spreads] == [True] * 3
    verdict = judge_replay(found, runner.case, policy=Policy(on_cpu=True))
    assert verdict.code == "answers-repeated"
    assert "the largest error against onnxruntime float32 is " in verdict.sentence
    assert repeats.repeat(runner_of(), repeats=2) == found  # its answers are in the cache


def test_a_wrong_answer_is_wrong_beside_an_export_too(runner_of, without_torch):
    runner = runner_of(altered=FAULT)
    verdict = judge_replay(repeats.repeat(runner, repeats=2), runner.case, policy=Policy(on_cpu=True))
    assert verdict.code == "answer-wrong"
    assert re.fullmatch(
        r"Text encoder answer to another prompt and seed has a relative L2 error 1\.00e-02 against onnxruntime "
        r"float32; plain onnxruntime float32 has \S+, so at most \S+ passes\.",
        verdict.sentence,
    )


@pytest.mark.parametrize("several", [False, True])
def test_an_optimizer_that_answers_wrong_is_no_reference_error_for_its_answers(runner_of, several):
    runner = runner_of(HIT)
    exact, rough = float32_graph.answers(runner, "float32", repeats.calls_of(runner), numbers=range(1 + 4 * several))
    assert (len(exact), [len(one) for one in rough]) == (2, [2] * (1 + 4 * several))
    for answers in rough:
        for one, right in zip(answers, exact, strict=True):
            for name, array in right.items():
                assert relative_l2(one[name], array) == pytest.approx(MOST_ROUNDING, rel=1e-3)
