"""The programs that show what is wrong in other people's software: right where it is right, and able to say so."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "findings"


def shown(name, monkeypatch, **smaller):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for setting, value in smaller.items():
        monkeypatch.setattr(module, setting, value)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--provider=CPUExecutionProvider"])
    return module


@pytest.fixture
def flash(monkeypatch):
    return shown("flash_heads_of_160", monkeypatch, BATCHES=(1,), ROWS_AND_KEYS=((64, 77),))


@pytest.fixture
def convolutions(monkeypatch):
    return shown("convolutions_without_tensor_cores", monkeypatch, SHAPES=((1, 8, 16, 3),), CALLS=2)


def test_attention_of_a_processor_is_right(flash, capsys):
    assert not flash.main()
    assert capsys.readouterr().out.startswith("batch  1,  64 rows,  77 keys: relative L2 error ")


def test_a_wrong_attention_is_called_wrong(flash, monkeypatch, capsys):
    right = flash.expected
    monkeypatch.setattr(flash, "expected", lambda *inputs: 2.5 * right(*inputs))
    assert flash.main()
    assert capsys.readouterr().out == "batch  1,  64 rows,  77 keys: relative L2 error 6.0e-01  WRONG\n"


def test_a_convolution_is_timed_both_ways(convolutions, capsys):
    convolutions.main()  # which is faster is up to the machine
    pattern = r"1 x 8 channels, 16x16, filter 3x3: use_tf32=1 \d+\.\d{3} ms, use_tf32=0 \d+\.\d{3} ms(  SLOWER)?\n"
    assert re.fullmatch(pattern, capsys.readouterr().out)


@pytest.mark.parametrize(("off", "slower"), [(1.5, False), (1.6, True)])
def test_one_that_gets_slower_is_called_so(convolutions, off, slower, monkeypatch, capsys):
    times = iter([0.5, off])
    monkeypatch.setattr(convolutions, "milliseconds", lambda *given: next(times))
    assert convolutions.main() is slower
    assert capsys.readouterr().out.endswith(f"use_tf32=0 {off:.3f} ms{'  SLOWER' if slower else ''}\n")


def test_the_provider_is_told_by_the_name_of_its_option(convolutions, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program"])
    given = []
    monkeypatch.setattr(convolutions, "milliseconds", lambda *arguments: given.append(arguments[2:]) or 1.0)
    convolutions.main()
    assert given == [("CUDAExecutionProvider", {"use_tf32": value}) for value in "10"]
