from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.files import strict_json

DEEP = "more than 64 objects and lists inside each other"
WHOLE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


def message(content: bytes, path) -> str:
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        strict_json.read(path)
    return str(caught.value)


@given(WHOLE)
def test_what_json_can_hold_is_read_as_json_reads_it(data):
    for ascii_only in (True, False):
        text = json.dumps(data, ensure_ascii=ascii_only)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            continue
        assert strict_json.parse(text) == json.loads(text)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_utf_8_is_read_with_and_without_a_byte_order_mark(tmp_path, mark):
    path = tmp_path / "a.json"
    path.write_bytes(mark + '{"ö": 1}'.encode())
    assert strict_json.read(path) == {"ö": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_named(tmp_path, encoding):
    assert message('{"a": 1}'.encode(encoding), tmp_path / "a.json") == (
        f"it is text in {encoding[:6].upper()}, as Windows PowerShell 5.1 writes it with `>`; save it as UTF-8"
    )


def test_bytes_that_are_no_text(tmp_path):
    assert message(b'{"a": "\xff"}', tmp_path / "a.json") == "it is not UTF-8 text (byte 7); save it as UTF-8"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1, column 1: Expecting value"),
        ('{"a": 1,\n}', "line 2, column 1: Expecting property name enclosed in double quotes"),
        ('{"a": 1, "a": 2}', "the name 'a' occurs twice in one object"),
        ('{"a": [1, NaN]}', "NaN is not a number that a measurement can have - at `$.a[1]`"),
        ("Infinity", "Infinity is not a number that a measurement can have - at `$`"),
        ('{"a b": {"c": -Infinity}}', '-Infinity is not a number that a measurement can have - at `$["a b"].c`'),
        ("[1e999]", "1e999 is not a number that a measurement can have - at `$[0]`"),
        ("[-1E+0400]", "-1E+0400 is not a number that a measurement can have - at `$[0]`"),
        (f"[{'9' * 400}]", "99999999999999999999... is not a number that a measurement can have - at `$[0]`"),
        (f"[{'9' * 5000}]", "99999999999999999999... is not a number that a measurement can have - at `$[0]`"),
        (f"[{'9' * 400}.0]", "99999999999999999999... is not a number that a measurement can have - at `$[0]`"),
        ('["\\ud83d"]', "'\\ud83d' holds half of a character - at `$[0]`"),
        ('{"\\ud83d": 1}', "'\\ud83d' holds half of a character - at `$[\"\\ud83d\"]`"),
        ("[" * 65 + "]" * 65, f"{DEEP} - at `$" + "[0]" * 64 + "`"),
        ("[" * 100_000, DEEP),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_its_place(text, why):
    with pytest.raises(ValueError) as caught:
        strict_json.parse(text)
    assert str(caught.value) == why


def test_large_numbers_that_can_be_computed_with_stay():
    text = f'[{2**64}, 1e300, 1e-999, "1e999", "NaN", "{"9" * 500}"]'
    assert strict_json.parse(text) == json.loads(text)
    assert strict_json.parse("[" * 64 + "]" * 64)


@given(st.text() | st.text(st.characters()) | st.binary().map(os.fsdecode))
def test_what_is_no_utf_8_is_left_out_of_a_text_that_is_written(text):
    written = strict_json.whole(text)
    assert strict_json.parse(json.dumps(written)) == written
    assert strict_json.whole(written) == written
    if text.encode("utf-8", "ignore") == text.encode("utf-8", "replace"):
        assert written == text


def test_utf_8_is_recovered_where_python_did_not_take_it_for_that():
    """As under LC_ALL=C, where every byte beyond ASCII is taken by itself."""
    assert strict_json.whole("größer".encode().decode("ascii", "surrogateescape")) == "größer"
    assert strict_json.whole(b"gr\xf6\xdfer".decode("utf-8", "surrogateescape")) == "gr\ufffd\ufffder"
    assert strict_json.whole("half \ud83d") == "half \ufffd"
