"""What ONNX Runtime says of its arenas, and how much they hold."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from pytest_sdperf.engines import _ort_log

GREW = (
    "2026-11-29 [I:onnxruntime:Default, bfc_arena.cc:335 AllocateRawInternal] Extending BFCArena for {device}. "
    "bin_num:15 (requested) num_bytes: 9000000 (actual) rounded_bytes:9000192\n"
    "2026-11-29 [I:onnxruntime:Default, bfc_arena.cc:205 Extend] Extended allocation by {size} bytes.\n"
    "2026-11-29 [I:onnxruntime:Default, bfc_arena.cc:208 Extend] Total allocated bytes: 99\n"
)
RESERVED = (
    "2026-11-29 [I:onnxruntime:Default, bfc_arena.cc:246 Reserve] Reserving memory in BFCArena for {device} "
    "size: {size}\n"
)
SIDE = 1500


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", None),
        ("Extended allocation by 7 bytes.\n", None),
        (GREW.format(device="Cpu", size=16), None),
        (RESERVED.format(device="CudaPinned", size=16), None),
        (GREW.format(device="Cuda", size=16), 16),
        (RESERVED.format(device="Cuda", size=5) * 2, 10),
        (
            GREW.format(device="Cuda", size=16)
            + GREW.format(device="CudaPinned", size=1000)
            + RESERVED.format(device="Cpu", size=500)
            + GREW.format(device="Cuda", size=32)
            + RESERVED.format(device="Cuda", size=4),
            52,
        ),
    ],
)
def test_what_the_arenas_of_one_device_hold(said, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(_ort_log, "STDERR", tmp_path / "stderr.txt")
    _ort_log.STDERR.write_text(f"loading\n{said}done\n")
    assert _ort_log.arena_bytes("Cuda") == expected


def test_where_nobody_can_read_what_was_said_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(_ort_log, "STDERR", tmp_path / "missing")
    assert (_ort_log.told(), _ort_log.arena_bytes("Cuda"), _ort_log.memcpy_nodes("unet")) == (None, None, None)


@contextlib.contextmanager
def stderr_in(path):
    """Have everything that libraries of this process write to stderr in a file, as a worker has."""
    with path.open("w") as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def two_products():
    shape = [SIDE, SIDE]
    nodes = [
        helper.make_node("MatMul", ["a", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "a"], ["d"]),
    ]
    a, d = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ad")
    graph = helper.make_graph(nodes, "products", [a], [d])
    opsets = [helper.make_opsetid("", 18)]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=9))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux shows a process its own stderr")
def test_a_real_arena_says_when_it_grows_and_is_silent_when_it_is_told_to(tmp_path):
    said = tmp_path / "stderr.txt"
    inputs = {"a": np.ones((SIDE, SIDE), "float32")}
    with stderr_in(said):
        _ort_log.listen(onnxruntime, to_arenas=True)
        try:
            session = onnxruntime.InferenceSession(
                two_products().SerializeToString(), providers=["CPUExecutionProvider"]
            )
            session.run(None, inputs)
            held = _ort_log.arena_bytes("Cpu")
        finally:
            _ort_log.listen(onnxruntime, to_arenas=False)
        before = said.read_text()
        another = onnxruntime.InferenceSession(two_products().SerializeToString(), providers=["CPUExecutionProvider"])
        another.run(None, inputs)
        assert said.read_text() == before
    totals = [int(total) for total in re.findall(r"Total allocated bytes: (\d+)", before)]
    assert held == totals[-1] >= 2 * SIDE * SIDE * 4


def test_onnxruntime_still_speaks_in_these_words():
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so")
    content = library.read_bytes()
    words = (b"Extending BFCArena for ", b"Extended allocation by ", b"Reserving memory in BFCArena for ", b" size: ")
    assert [word for word in words if word not in content] == []
