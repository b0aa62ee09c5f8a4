"""Stored cases that nothing measures any more: a test that has vanished or was renamed looks like one that passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from pytest_sdperf.baselines.stored import Baseline, StoredCase
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values import Case

_NOT_COMPARED = ("engine_options", "steps", "scheduler")
_COMPONENT = "component"


def unused(
    baseline: Baseline, collected: Iterable[Case], asked: Mapping[str, Collection[str]] = MappingProxyType({})
) -> tuple[StoredCase, ...]:
    """Return stored cases that these options cover but no test asks for any more.

    A stored case is covered if, field by field, some collected case has its value or an option names it. The component
    is compared with the options alone: a component whose test has vanished is exactly what this finds.

    Args:
        baseline: Of the device that is tested.
        collected: Cases that the options collect before any deselection.
        asked: Field of a case -> values that the options name (`engine_label` for an engine).
    """
    cases = tuple(collected)
    if not cases:
        return ()
    keys = {case.key for case in cases}
    values: dict[str, set[str]] = {name: set(named) for name, named in asked.items()}
    for case in cases:
        for name, value in _values(case).items():
            if name != _COMPONENT:
                values.setdefault(name, set()).add(value)
    return tuple(
        stored
        for key, stored in sorted(baseline.cases.items())
        if key not in keys and all(value in values.get(name, {value}) for name, value in _values(stored.case).items())
    )


def _values(case: Case) -> dict[str, str]:
    names = [field.name for field in dataclasses.fields(Case) if field.name not in _NOT_COMPARED]
    return {
        **{name: str(getattr(case, name)) for name in names},
        "engine": engine_label(case.engine, case.engine_options),
    }
