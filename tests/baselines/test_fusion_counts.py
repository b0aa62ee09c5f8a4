"""The file of operator counts that a foreign optimizer is known to reach: who reads it, and who writes it."""

from __future__ import annotations

import errno
import threading

import pytest

from pytest_sdperf.baselines import counts
from pytest_sdperf.baselines.counts import read, record
from pytest_sdperf.core.errors import BaselineError

GELU, NORM = {"com.microsoft::Gelu": 4}, {"com.microsoft::SkipLayerNormalization": 32}
TAIL = (
    "Nothing was written to it. Restore it from version control, or move it away and record it again with "
    "--sdperf-update-baselines."
)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "fusions").mkdir()
    return tmp_path / "fusions" / "onnxruntime-1.32.json"


@pytest.fixture
def locks(tmp_path):
    return tmp_path / "locks"


def test_what_is_recorded_is_read_again_and_told(path, locks):
    assert read(path) == {}
    assert record(path, {"a": GELU}, lock_dir=locks) == ("+ a: Gelu 4",)
    assert record(path, {"a": NORM, "b": {}}, lock_dir=locks) == ("~ a: SkipLayerNormalization 32", "+ b: no operators")
    assert read(path) == {"a": NORM, "b": {}}
    before = path.stat().st_mtime_ns
    assert record(path, {"a": NORM}, lock_dir=locks) == ()
    assert path.stat().st_mtime_ns == before


def test_two_processes_that_record_lose_nothing(path, locks, monkeypatch):
    """The first one stands still between reading and writing: the second has to wait for it."""
    reads, second_asked, write = [], threading.Event(), counts.write_checked

    def slow_read(file):
        reads.append(threading.current_thread().name)
        return read(file)

    def slow_write(file, text):
        if threading.current_thread().name == "first":
            other.start()
            assert second_asked.wait(10)
            other.join(0.3)
        write(file, text)

    def second():
        second_asked.set()
        record(path, {"b": NORM}, lock_dir=locks)

    monkeypatch.setattr(counts, "read", slow_read)
    monkeypatch.setattr(counts, "write_checked", slow_write)
    other = threading.Thread(target=second, name="second")
    first = threading.Thread(target=record, args=(path, {"a": GELU}), kwargs={"lock_dir": locks}, name="first")
    first.start()
    first.join()
    other.join()
    assert reads == ["first", "second"]
    assert read(path) == {"a": GELU, "b": NORM}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1, column 2: Expecting property name enclosed in double quotes"),
        ('{"schema": 1, "cases": {"a": {"::Add": 1}, "a": {}}}', "the name 'a' occurs twice in one object"),
        (
            '{"schema": 1, "cases": {"a": {"::Add": NaN}}}',
            'NaN is not a number that a measurement can have - at `$.cases.a["::Add"]`',
        ),
        ('{"schema": 1, "cases": {"a": {"::Add": "1"}}}', "Expected `int`, got `str` - at `$.cases[...][...]`"),
    ],
)
def test_a_damaged_file_is_named_and_never_overwritten(path, locks, text, why):
    path.write_text(text)
    for use in (lambda: read(path), lambda: record(path, {"a": GELU}, lock_dir=locks)):
        with pytest.raises(BaselineError) as caught:
            use()
        assert str(caught.value) == f"file of fusion counts {path} is not valid: {why}. {TAIL}"
    assert path.read_text() == text


def test_another_schema(path):
    path.write_text('{"schema": 2, "cases": {}}')
    with pytest.raises(BaselineError) as caught:
        read(path)
    assert str(caught.value) == (
        f"file of fusion counts {path} has schema 2; this version of pytest-sdperf reads schema 1. Install the version "
        f"that wrote it, or record it again with --sdperf-update-baselines."
    )


def test_a_file_that_cannot_be_read(path):
    path.mkdir()
    with pytest.raises(BaselineError) as caught:
        read(path)
    assert str(caught.value) == f"cannot read file of fusion counts {path}: Is a directory. Make it readable."


def test_a_full_disk_leaves_the_old_file(path, locks, monkeypatch):
    record(path, {"a": GELU}, lock_dir=locks)

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(BaselineError) as caught:
        record(path, {"b": NORM}, lock_dir=locks)
    assert str(caught.value) == (
        f"cannot write baseline file {path}: No space left on device. It is unchanged. Make its folder writable, or "
        f"name another one with --sdperf-baselines=FOLDER."
    )
    assert read(path) == {"a": GELU}
