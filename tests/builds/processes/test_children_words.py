"""The last lines of a process that ended."""

from __future__ import annotations

from pytest_sdperf.builds.processes.children import TAIL_LINES, last_words


def test_notices_of_onnxruntime_are_no_last_words(tmp_path):
    notice = (
        "2026-11-29 [I:onnxruntime:Default, bfc_arena.cc:246 Reserve] Reserving memory in BFCArena for Cuda size: 9\n"
    )
    error = "2026-11-29 [E:onnxruntime:unet, cuda_call.cc:118 CudaCall] CUDNN failure 4\n"
    stderr = tmp_path / "stderr.txt"
    stderr.write_text(f"loading\n{error}{notice * 50}Segmentation fault\n")
    assert last_words(stderr) == f"loading\n{error}Segmentation fault"


def test_of_many_lines_the_last_are_kept(tmp_path):
    stderr = tmp_path / "stderr.txt"
    stderr.write_text("".join(f"line {number}\n" for number in range(99)))
    assert last_words(stderr).splitlines() == [f"line {number}" for number in range(99 - TAIL_LINES, 99)]
    assert last_words(tmp_path / "missing.txt") == ""
