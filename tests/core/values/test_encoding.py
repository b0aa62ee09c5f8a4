"""Values that go to a worker as JSON are there what they were here, without any library."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.values.encoding import finite, from_json, to_json


class Kind(Enum):
    GRAPH = "graph"
    MODULE = "module"


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    weight: float = 0.0


@dataclasses.dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    pair: tuple[int, str]
    kind: Kind
    path: Path
    by_name: Mapping[str, tuple[Part, ...]]
    free: Mapping[str, Any]
    listed: Sequence[Part]
    level: Literal["a", "b"] = "a"
    perhaps: Part | None = None


parts = st.builds(Part, st.text(), st.floats(allow_nan=False))
wholes = st.builds(
    Whole,
    st.lists(parts).map(tuple),
    st.tuples(st.integers(), st.text()),
    st.sampled_from(Kind),
    st.sampled_from([Path("a"), Path("/b/c.onnx")]),
    st.dictionaries(st.text(), st.lists(parts).map(tuple)),
    st.dictionaries(st.text(), st.integers() | st.none() | st.lists(st.text())),
    st.lists(parts),
    st.sampled_from(["a", "b"]),
    st.none() | parts,
)


@given(wholes)
def test_what_is_sent_is_what_comes(whole):
    assert from_json(json.loads(json.dumps(to_json(whole))), Whole) == whole


def test_a_whole_number_is_a_float_where_one_is_wanted():
    assert type(from_json({"name": "a", "weight": 1}, Part).weight) is float


@pytest.mark.parametrize(
    ("data", "why"),
    [({"weight": 1.0}, "missing 1 required positional argument: 'name'"), ({"name": "a", "b": 1}, "argument 'b'")],
)
def test_a_request_that_does_not_fit_is_refused(data, why):
    with pytest.raises(TypeError, match=why):
        from_json(data, Part)


def test_sets_are_sorted_lists():
    assert to_json({"names": {"b", "a"}}) == {"names": ["a", "b"]}


def test_json_cannot_hold_what_is_not_finite():
    assert finite({"a": [math.inf, 1.0], "b": math.nan}) == {"a": ["inf", 1.0], "b": "nan"}
