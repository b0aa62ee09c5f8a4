"""Why nothing inside a component was compared, in whole sentences."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_sdperf.checks.agreement import joints
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values.outcomes import Agreement
from pytest_sdperf.tasks.joints import JointsCompared

WHOLE = Agreement("component", "relative-l2", 1e-3, 1e-3, 2e-3, "float16", "float32", "sample[0]")
OUTPUT = np.linspace(1, 2, 8)


@pytest.fixture
def hidden(monkeypatch, tmp_path):
    """Return what is said of a case whose engine has other outputs with inner values, or has other things."""

    def said(*, away: float = 0.0, counts: dict[str, int] | None = None, by_torch: bool = True, blocks: int = 1) -> str:
        path = save_arrays(tmp_path / "outputs.npz", {"sample": OUTPUT * (1 + away)})
        monkeypatch.setattr(joints, "by_torch", lambda _: by_torch)
        monkeypatch.setattr(joints, "plain_runner", lambda _: SimpleNamespace(execution=lambda: None))
        monkeypatch.setattr(joints, "_inside", lambda *_: ((path,), {}))
        monkeypatch.setattr(joints, "_once", lambda *_: JointsCompared((), blocks, 1))
        runner = SimpleNamespace(
            case=SimpleNamespace(component="unet"), dtype="float16", outputs=lambda: {"sample": OUTPUT},
            build=lambda _: SimpleNamespace(counts=counts or {}),
        )  # fmt: skip
        (found,) = joints.with_joints(runner, WHOLE)  # type: ignore[arg-type]  # all that is read of a runner
        return found.hidden

    return said


def test_other_outputs_with_inner_values_are_another_graph(hidden):
    assert hidden(away=0.01) == (
        "with what is inside as outputs it computes something else, 1.00e-02 away where rounding explains 2.00e-03: "
        "that is another graph than the one that runs"
    )


def test_quantized_graphs_are_left_out(hidden):
    assert hidden(counts={"ai.onnx::DequantizeLinear": 24}) == (
        "the graph is quantized (24 DequantizeLinear), and what that costs is no fault of an engine"
    )


def test_nothing_is_computed_again_without_a_module(hidden):
    assert hidden(by_torch=False) == "there is no torch module to compute it again with"


def test_modules_without_blocks_have_no_joints(hidden):
    assert hidden(blocks=0) == "its module has no lists of blocks"
    assert hidden() == "nothing that its blocks read or give can be told from a mask"


def test_a_worker_that_fails_leaves_the_verdict_on_the_outputs(monkeypatch):
    def crash(*_):
        raise WorkerError("the worker was killed by SIGKILL\nand more", reason="signal", tail="")

    monkeypatch.setattr(joints, "_compared", crash)
    (found,) = joints.with_joints(None, WHOLE)  # type: ignore[arg-type]  # it is not read
    assert (found.hidden, found.passed) == ("looking inside failed: the worker was killed by SIGKILL", True)
