"""The programs that show what is wrong in other people's software: right where it is right, and able to say so."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "findings"


@pytest.fixture
def flash(monkeypatch):
    spec = importlib.util.spec_from_file_location("flash_heads_of_160", FOLDER / "flash_heads_of_160.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BATCHES", (1,))
    monkeypatch.setattr(module, "ROWS_AND_KEYS", ((64, 77),))
    monkeypatch.setattr(sys, "argv", ["flash_heads_of_160.py", "--provider=CPUExecutionProvider"])
    return module


def test_attention_of_a_processor_is_right(flash, capsys):
    assert not flash.main()
    assert capsys.readouterr().out.startswith("batch  1,  64 rows,  77 keys: relative L2 error ")


def test_a_wrong_attention_is_called_wrong(flash, monkeypatch, capsys):
    right = flash.expected
    monkeypatch.setattr(flash, "expected", lambda *inputs: 2.5 * right(*inputs))
    assert flash.main()
    assert capsys.readouterr().out == "batch  1,  64 rows,  77 keys: relative L2 error 6.0e-01  WRONG\n"
