"""What was said on the command line, in ini files and in `[tool.sdperf]`, by the name of the option."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_sdperf.cases.options.flags import OPTIONS
from pytest_sdperf.cases.options.option_value import OptionValue


def read_answers(config: pytest.Config, project: Mapping[str, str]) -> dict[str, OptionValue]:
    """Return what was said, by option name: flag over ini value over `[tool.sdperf]`.

    Args:
        config: pytest's.
        project: Options of `[tool.sdperf]` by name.
    """
    answers = {}
    for option in OPTIONS:
        given = typed(option.destination, config)
        ini = config.getini(option.destination)
        if given is not None:
            answers[option.name] = given
        elif ini is not None:
            answers[option.name] = OptionValue(str(ini), option.destination)
        elif option.name in project:
            answers[option.name] = OptionValue(project[option.name], f"[tool.sdperf] {option.name}")
    return answers


def typed(destination: str, config: pytest.Config) -> OptionValue | None:
    """Return what the command line says of an option, by its name in pytest's namespace; None where it says nothing."""
    given = config.getoption(destination)
    return OptionValue(*given) if given is not None else None
