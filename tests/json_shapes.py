"""JSON data of a type: whatever a file may hold and still have the fields and types that its reader asks for."""

from __future__ import annotations

import copy
import dataclasses
import enum
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

INTEGERS, FLOATS, TEXTS = (st.sampled_from(some) for some in ([1, 2, 3], [0.01, 1.0, 1.5], ["unet", "A", "ölig", ""]))
# At which something ends: no calls, no time, what rounds to nothing, and what overflows when it is added up.
ODD = {
    int: st.sampled_from([0, -1, 2**63, 10**99]),
    float: st.sampled_from([0.0, -1.0, 5e-324, 1e300, 1.7e308]) | st.sampled_from(["nan", "inf", "-inf"]),
    str: st.sampled_from(["", "oom", "../x", "{", "%s", "\x1b[1m\n", "\0", "nan", "2026-11-20T10:00Z"]),
    bool: st.booleans(),
    list: st.just([]),
}
ANYTHING = st.recursive(
    st.none() | st.one_of(*ODD.values()) | INTEGERS | FLOATS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ODD[str], inner, max_size=2),
    max_leaves=4,
)
_LEAVES = {int: INTEGERS, float: FLOATS, str: TEXTS, bool: st.booleans(), type(None): st.none(), Any: ANYTHING}


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[Any]) -> Any:
    """Draw JSON data, and change up to three of its values: mostly to odd ones of the same type."""
    data = copy.deepcopy(draw(whole))  # what is drawn may be one object in many places
    for _ in range(draw(st.integers(0, 3))):
        places = list(_places(data))
        if places:
            holder, name = draw(st.sampled_from(places))
            like = ODD.get(type(holder[name]), ANYTHING)
            holder[name] = draw(st.one_of(like, like, like, ANYTHING))
    return data


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    for name in data if isinstance(data, dict) else range(len(data)):
        if not isinstance(data[name], dict):
            yield data, name
        if isinstance(data[name], (dict, list)):
            yield from _places(data[name])


class Shapes:
    """Makes JSON data of a type.

    Args:
        fixed: Type, or class and name of one of its fields, -> what is drawn there instead.
    """

    def __init__(self, fixed: dict[Any, st.SearchStrategy[Any]]) -> None:
        self._fixed = fixed
        self._made: dict[Any, st.SearchStrategy[Any]] = {}

    def of(self, kind: Any) -> st.SearchStrategy[Any]:
        """Return the strategy of a type."""
        if kind in self._fixed:
            return self._fixed[kind]
        if kind not in self._made:
            self._made[kind] = st.deferred(lambda: self._make(kind))
        return self._made[kind]

    def _make(self, kind: Any) -> st.SearchStrategy[Any]:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if kind in _LEAVES:
            return _LEAVES[kind]
        if origin is typing.Literal:
            return st.sampled_from(arguments)
        if origin in (typing.Union, types.UnionType):
            return st.one_of(*(self.of(one) for one in arguments if one is not msgspec.UnsetType))
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return st.sampled_from([one.value for one in kind])
        return self._of_items(origin, arguments) if origin is not None else self._object(kind)

    def _of_items(self, origin: Any, arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
        if origin is tuple and arguments[-1] is not ...:
            return st.tuples(*map(self.of, arguments)).map(list)
        if origin in (tuple, list, frozenset):
            return st.lists(self.of(arguments[0]), max_size=2)
        return st.dictionaries(self.of(arguments[0]), self.of(arguments[1]), max_size=2)

    def _object(self, kind: type) -> st.SearchStrategy[Any]:
        hints = typing.get_type_hints(kind)
        if typing.is_typeddict(kind):
            required = {name: self.of(hints[name]) for name in kind.__required_keys__}
            return st.fixed_dictionaries(required, optional={n: self.of(hints[n]) for n in kind.__optional_keys__})
        if dataclasses.is_dataclass(kind):
            names, optional = [one.name for one in dataclasses.fields(kind)], set()
            for one in dataclasses.fields(kind):
                if one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING:
                    optional.add(one.name)
        else:
            info = msgspec.structs.fields(kind)
            names, optional = [one.name for one in info], {one.name for one in info if not one.required}
        drawn = {name: self.of((kind, name) if (kind, name) in self._fixed else hints[name]) for name in names}
        required = {name: of for name, of in drawn.items() if name not in optional or (kind, name) in self._fixed}
        left = {name: of for name, of in drawn.items() if name not in required}
        return st.fixed_dictionaries(required, optional=left)
