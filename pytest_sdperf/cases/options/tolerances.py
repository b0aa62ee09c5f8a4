"""`[[tool.sdperf.tolerances]]`: tables of a project's `pyproject.toml` -> rules.

Example::

    [[tool.sdperf.tolerances]]
    components = "vae_decoder"
    engines = "ort-cuda"
    latency = "5%"
    reason = "cuDNN picks between two algorithms of the first convolution"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.cases.options import lookups
from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.engine_requests import engines
from pytest_sdperf.cases.options.option import OptionValue, Parse, plain
from pytest_sdperf.cases.options.profiles import TOLERANCES
from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.tolerances import MOST, NAMES, ToleranceRule

if TYPE_CHECKING:
    from pytest_sdperf.cases.options.reading import SettingsParser

# The axis of a rule -> what reads its values, in which every registered name is allowed.
AXES: Mapping[str, Parse] = {
    "models": lookups.models,
    "components": lambda said, reader: read.among(said, "component", lookups.components_of(reader.catalog)),
    "engines": lambda said, reader: tuple(engine_label(one.label, one.options) for one in engines(said, reader)),
    "optimizations": lambda said, reader: lookups.optimizations(said, reader)[0],
    "batch-sizes": plain(read.counts, "a batch size"),
}
REASON = "reason"


def read_rules(tables: Sequence[Mapping[str, str]], reader: SettingsParser) -> tuple[ToleranceRule, ...]:
    """Check the tables (key -> text) of a project in the order of the file, also those that this run does not use.

    Raises:
        OptionError: A value that cannot be understood, no tolerance, or no reason.
        UnknownNameError: An unknown key, or a name that is not registered.
    """
    return tuple(_rule(f"[[{TOLERANCES}]] {number}", table, reader) for number, table in enumerate(tables, 1))


def _rule(where: str, table: Mapping[str, str], reader: SettingsParser) -> ToleranceRule:
    UnknownNameError.check(f"key in {where}", table, (*AXES, *NAMES, REASON))
    said = {key: OptionValue(text, f"{where} {key}") for key, text in table.items()}
    effects = {name: read.fraction(said[name], most=MOST) for name in NAMES if name in said}
    if not effects:
        raise OptionError(
            f'{where} sets no tolerance. Allowed: {", ".join(NAMES)}; add a line such as: latency = "5%".'
        )
    if not table.get(REASON, "").strip():
        listed = ", ".join(f"{name}={table[name]}" for name in effects)
        raise OptionError(
            f"{where} sets {listed} without a reason. Say why these cases differ from all others: add a line such as: "
            f'{REASON} = "the driver picks between two algorithms".'
        )
    axes = {key.replace("-", "_"): parse(said[key], reader) for key, parse in AXES.items() if key in said}
    return ToleranceRule(where, effects, table[REASON].strip(), **axes)
