"""`@pytest.mark.sdperf(...)`: what one test says about its own cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.tolerances import MOST, NAMES, ToleranceRule

MARKER = "sdperf"
_LISTS = ("models", "components", "engines", "optimizations", "shapes")


@dataclasses.dataclass(frozen=True)
class Marks:
    """Arguments of the marker; None was not given.

    Attributes:
        models, components, engines, optimizations, batch_sizes, shapes: Values of their axes, spelled as on the command
            line.
        tolerances: Name of a tolerance -> smallest relative change that counts in this test (0.05 is 5 %).
        reason: Why they differ from everybody else's.
    """

    models: tuple[str, ...] | None = None
    components: tuple[str, ...] | None = None
    engines: tuple[str, ...] | None = None
    optimizations: tuple[str, ...] | None = None
    batch_sizes: tuple[int, ...] | None = None
    shapes: tuple[str, ...] | None = None
    tolerances: Mapping[str, float] | None = None
    reason: str | None = None

    def rule(self, nodeid: str) -> ToleranceRule | None:
        """Return the tolerances of this test, of whichever of its cases; None where it has none."""
        if not self.tolerances or not self.reason:
            return None
        return ToleranceRule(f"the marker of {nodeid}", self.tolerances, self.reason)


def read_marks(markers: Iterable[pytest.Mark]) -> Marks:
    """Merge the markers of one test, closest first, as `iter_markers("sdperf")` gives them; the closest wins.

    Raises:
        OptionError: Positional arguments, a value of the wrong type, or `tolerances` without `reason`.
        UnknownNameError: An unknown key, or name of a tolerance.
    """
    merged: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise OptionError(
                f"the marker {MARKER} takes no positional arguments, but got {marker.args[0]!r}. "
                f"Allowed: {', '.join(argument_names())}; type for example @pytest.mark.{MARKER}(engines='torch')."
            )
        merged = {**_checked(marker.kwargs), **merged}
    marks = Marks(**merged)
    if marks.tolerances is not None and not marks.reason:
        raise OptionError(
            f"the marker {MARKER} sets tolerances={marks.tolerances} without a reason. "
            f"Say why this test differs: @pytest.mark.{MARKER}(tolerances={marks.tolerances}, reason='...')."
        )
    return marks


def argument_names() -> tuple[str, ...]:
    """Return what the marker takes."""
    return tuple(field.name for field in dataclasses.fields(Marks))


def _checked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    UnknownNameError.check(f"argument of the marker {MARKER}:", arguments, argument_names())
    return {key: _value(key, value) for key, value in arguments.items()}


def _value(key: str, value: Any) -> Any:
    if key in _LISTS:
        return _sequence(key, value, str, "texts")
    if key == "batch_sizes":
        sizes = _sequence(key, value, int, "whole numbers from 1")
        if all(size >= 1 for size in sizes):
            return sizes
        raise _wrong(key, value, "whole numbers from 1")
    if key == "tolerances":
        return _tolerances(key, value)
    if isinstance(value, str) and value.strip():
        return value
    raise _wrong(key, value, "a text")


def _tolerances(key: str, value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise _wrong(key, value, "fractions by name, such as {'latency': 0.05}")
    UnknownNameError.check("tolerance", map(str, value), NAMES)
    for name, effect in value.items():
        if not (isinstance(effect, float) and 0 < effect < MOST):
            raise _wrong(f"{key} {name}", effect, f"a fraction above 0 and below {MOST:.0f}, such as 0.05")
    return dict(value)


def _sequence(key: str, value: Any, kind: type, allowed: str) -> tuple[Any, ...]:
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if items and all(isinstance(item, kind) and not isinstance(item, bool) for item in items):
        return tuple(items)
    raise _wrong(key, value, f"one of, or a list of, {allowed}")


def _wrong(key: str, value: Any, allowed: str) -> OptionError:
    return OptionError(f"the marker {MARKER} got {key}={value!r}. Allowed: {allowed}.")
