"""A plain table: whatever stands in it, its cells stay apart and below each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.checks.reporting.columns import TableRow, column_lines

WORDS = st.text("0123456789,.%e-", min_size=1, max_size=25)


def test_a_wide_number_widens_its_column_and_a_long_label_has_its_own_line():
    rows = [TableRow("  short", ("1.00e-03", "12,186,440 %")), TableRow("  much longer than the others", ("-", "9 %"))]
    assert [line.text for line in column_lines("agreement", ("error", "of limit"), rows, width=40)] == [
        "agreement            error      of limit",
        "  short           1.00e-03  12,186,440 %",
        "  much longer than the others",
        "                         -           9 %",
    ]


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4), st.tuples(WORDS, WORDS, WORDS))
def test_cells_never_touch_and_end_where_their_column_ends(cells, heads):
    lines = [line.text for line in column_lines("t", heads, [TableRow("  r", row) for row in cells], width=120)]
    for line, texts in zip(lines, [heads, *cells], strict=True):
        assert tuple(line.split()[1:]) == texts
    assert len({len(line) for line in lines}) == 1
