from __future__ import annotations

import pytest

from pytest_sdperf.core import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12.3 ms"), (0.00942, "9.42 ms"), (1.0, "1.00 s"), (25.6, "25.6 s"), (0.9999, "1,000 ms"),
        (123.4, "123 s"), (1234.5, "1,234 s"), (8.5e-4, "850 µs"), (3e-7, "0.3 µs"), (0.0, "0.00 µs"),
    ],
)  # fmt: skip
def test_times(value, text):
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.31, "+31 %"), (0.985, "-1.5 %"), (1.0, "0.0 %"), (1.0004, "0.0 %"), (0.9996, "0.0 %"), (12.5, "+1,150 %"),
     (1.0995, "+9.9 %"), (1.09951, "+10 %")],
)  # fmt: skip
def test_changes(ratio, text):
    assert units.percent(ratio) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.31, "31 % above"), (0.9, "10 % below"), (1.0, "equal to"), (1.0001, "equal to")]
)
def test_changes_in_words(ratio, text):
    assert units.above_or_below(ratio) == text


def test_memory_counts_as_the_published_tables_do():
    assert units.megabytes(4480 * 2**20) == "4,480 MB"


@pytest.mark.parametrize(("value", "text"), [(0.02, "2 %"), (0.025, "2.5 %"), (0.449, "44.9 %"), (12.0, "1,200 %")])
def test_shares(value, text):
    assert units.share(value) == text


def test_plural():
    assert units.plural(1, "case") == "1 case"
    assert units.plural(2, "case") == "2 cases"
    assert units.plural(0, "process", "processes") == "0 processes"
