"""What was said on the command line, in ini files and in `[tool.sdperf]`, by the name of the option."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_sdperf.options.answer import Answer
from pytest_sdperf.options.flags import OPTIONS


def read_answers(config: pytest.Config, project: Mapping[str, str]) -> dict[str, Answer]:
    """Return what was said, by option name: flag over ini value over `[tool.sdperf]`.

    Args:
        config: pytest's.
        project: Options of `[tool.sdperf]` by name.
    """
    answers = {}
    for option in OPTIONS:
        given = config.getoption(option.destination)
        ini = config.getini(option.destination)
        if given is not None:
            answers[option.name] = Answer(*given)
        elif ini is not None:
            answers[option.name] = Answer(str(ini), option.destination)
        elif option.name in project:
            answers[option.name] = Answer(project[option.name], f"[tool.sdperf] {option.name}")
    return answers
