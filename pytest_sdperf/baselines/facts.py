"""Facts have the types that are judged and shown, and no number below 0: files hold them, and are edited and damaged.

What another version told under other names is kept, and nobody looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.values import Facts, Sample

_OWN = "own"  # what an engine tells there means what it likes


def check_facts(samples: Iterable[Sample], place: str) -> None:
    """Refuse facts of another type than the one that is judged and shown.

    Args:
        samples: Of one measurement or session.
        place: Where a file has them, such as `$.samples`.

    Raises:
        ValueError: The message says what is wrong, and where.
    """
    for number, sample in enumerate(samples):
        try:
            facts = strict_json.convert(dict(sample.facts), Facts)
            _check_numbers(facts, "$")
            _check_energy(facts.get("energy", {}))
        except ValueError as error:
            what, _, where = str(error).partition(" - at `$")
            raise ValueError(f"{what} - at `{place}[{number}].facts{where or '`'}") from None


def _check_energy(energy: Mapping[str, Any]) -> None:
    """Refuse power without the energy of a call, and the other way round: one follows from the other."""
    both = ("joules_per_call", "watts")
    missing = [name for name in both if name not in energy]
    if len(missing) == 1:
        raise ValueError(f"Object missing required field `{missing[0]}` - at `$.energy`")


def _check_numbers(value: Any, place: str) -> None:
    """Refuse numbers below 0: all of them are counts, amounts and shares."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name != _OWN:
                _check_numbers(one, f"{place}{strict_json.step(name)}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            _check_numbers(one, f"{place}{strict_json.step(number)}")
    elif isinstance(value, (int, float)) and not value >= 0:
        raise ValueError(f"Expected `{type(value).__name__}` >= {type(value)(0)} - at `{place}`")
