"""Arrays in a file, and what is asked of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pytest_sdperf
from pytest_sdperf.core.files.arrays import leaves_range, load_arrays, save_arrays


def test_arrays_come_back(tmp_path):
    path = save_arrays(tmp_path / "some.npz", {"a": np.arange(3), "b.0": np.ones((2, 2), np.float16)})
    found = load_arrays(path)
    assert list(found) == ["a", "b.0"]
    assert found["b.0"].dtype == np.float16


def test_nothing_but_arrays_is_handed_on(tmp_path, monkeypatch):
    """numpy 1.26 to 2.1 takes every named argument for an array, `allow_pickle` too."""
    written = []
    monkeypatch.setattr(np, "savez", lambda file, **arrays: written.append(sorted(arrays)))
    save_arrays(tmp_path / "some.npz", {"b": np.arange(3), "a": np.arange(3)})
    assert written == [["a", "b"]]


def test_only_this_module_writes_arrays():
    package = Path(pytest_sdperf.__file__).parent
    assert [path.name for path in package.rglob("*.py") if "np.savez" in path.read_text()] == ["arrays.py"]


def test_python_objects_are_refused(tmp_path):
    with pytest.raises(ValueError, match="pickle") as raised:
        save_arrays(tmp_path / "some.npz", {"a": np.arange(3), "b": np.array(["x", None], dtype=object)})
    assert str(raised.value) == (
        "array 'b' has the dtype object, which only pickle could write, and nothing is pickled. Allowed are numbers: "
        "give it a dtype such as float32, array.astype('float32')."
    )
    assert not (tmp_path / "some.npz").exists()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_range_is_left_where_the_other_one_has_numbers(bad):
    exact = np.array([1.0, 1e6, -3e38])
    assert leaves_range(np.array([1.0, bad, 0.0]), exact)
    assert not leaves_range(np.array([1.0, 65504.0, bad]), exact)  # what a mask has for minus infinity
    assert not leaves_range(np.array([bad, 1.0, 1.0]), np.array([bad, 1.0, 1.0]))
