"""Which CUDA libraries a process has loaded; the libraries are faked, the list of loaded files is Linux' own format."""

from __future__ import annotations

import ctypes

import pytest

from pytest_sdperf.engines import _cuda_libraries

SITE = "/venv/lib/python3.12/site-packages/nvidia"
MAPS = f"""
7f0000000000-7f0000001000 r--p 00000000 08:01 1    {SITE}/cu13/lib/libcudart.so.13
7f0000001000-7f0000002000 r-xp 00001000 08:01 1    {SITE}/cu13/lib/libcudart.so.13
7f0000003000-7f0000004000 r-xp 00001000 08:01 2    {SITE}/cu13/lib/libcublas.so.13
7f0000005000-7f0000006000 r-xp 00001000 08:01 3    {SITE}/cu13/lib/libcublasLt.so.13
7f0000007000-7f0000008000 r-xp 00001000 08:01 4    {SITE}/cudnn/lib/libcudnn.so.9
7f0000009000-7f000000a000 r-xp 00001000 08:01 5    {SITE}/cudnn/lib/libcudnn_ops.so.9
7f000000b000-7f000000c000 rw-p 00000000 00:00 0    [stack]
"""


class Function:
    """A function of a C library that fills an integer or returns one."""

    def __init__(self, answers):
        self._answers = list(answers)

    def __call__(self, *arguments):
        answer = self._answers.pop(0)
        if arguments:
            arguments[-1]._obj.value = answer
        return answer


class Library:
    def __init__(self, cudnn):
        self.cudaRuntimeGetVersion = Function([13000] * 2)
        self.cublasGetProperty = Function([13, 1, 0])
        self.cudnnGetVersion = Function([cudnn])


@pytest.mark.parametrize(("cudnn", "spelled"), [(92400, "9.24.0"), (91002, "9.10.2"), (8902, "8.9.2")])
def test_loaded_libraries_are_asked(cudnn, spelled, monkeypatch, tmp_path):
    monkeypatch.setattr(_cuda_libraries, "MAPS", tmp_path / "maps")
    (tmp_path / "maps").write_text(MAPS)
    opened = []
    library = Library(cudnn)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: opened.append(path) or library)
    assert _cuda_libraries.versions() == {"cuda": "13.0", "cublas": "13.1.0", "cudnn": spelled}
    names = ["cu13/lib/libcudart.so.13", "cu13/lib/libcublas.so.13", "cudnn/lib/libcudnn.so.9"]
    assert list(dict.fromkeys(opened)) == [f"{SITE}/{name}" for name in names]


def test_a_process_without_them(monkeypatch, tmp_path):
    maps = tmp_path / "maps"
    maps.write_text("7f10-7f20 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6\n")
    monkeypatch.setattr(_cuda_libraries, "MAPS", maps)
    assert _cuda_libraries.versions() == {}
    monkeypatch.setattr(_cuda_libraries, "MAPS", tmp_path / "missing")
    assert _cuda_libraries.versions() == {}
