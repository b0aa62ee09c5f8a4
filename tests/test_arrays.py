"""Arrays in a file, and what is asked of each."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_sdperf.files.arrays import leaves_range, load_arrays, save_arrays


@pytest.fixture
def before_2_2(monkeypatch):
    """numpy 1.26 to 2.1: every named argument of `savez` is an array."""
    savez = np.savez

    def old(file, *args, **kwds):
        savez(file, *args, **{name: np.asanyarray(array) for name, array in kwds.items() if name != "allow_pickle"})
        if "allow_pickle" in kwds:
            savez(file, allow_pickle_=kwds["allow_pickle"])

    monkeypatch.setattr(np, "savez", old)


def test_arrays_come_back(tmp_path):
    path = save_arrays(tmp_path / "some.npz", {"a": np.arange(3), "b.0": np.ones((2, 2), np.float16)})
    found = load_arrays(path)
    assert list(found) == ["a", "b.0"]
    assert found["b.0"].dtype == np.float16


@pytest.mark.usefixtures("before_2_2")
def test_nothing_else_is_written_whatever_numpy_it_is(tmp_path):
    assert list(load_arrays(save_arrays(tmp_path / "some.npz", {"a": np.arange(3)}))) == ["a"]


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
