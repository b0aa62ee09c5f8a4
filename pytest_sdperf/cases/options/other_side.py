"""`--ab` and its companions -> the second side of an A/B."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.cases.options import lookups
from pytest_sdperf.cases.options.engine_requests import ALL, engines
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.settings import MORE, EngineRequest, Settings

if TYPE_CHECKING:
    from pytest_sdperf.cases.options.reading import SettingsParser

SIDES = ("ab", "ab-engine", "ab-optimization")
# A pair alone has no spread: nothing that it shows can be told from chance.
FEWEST_PAIRS = 2


def interpreter(answer: OptionValue, reader: SettingsParser) -> Path:
    """Read the interpreter of the second side."""
    python = lookups.path(answer, reader)
    inside = next((path for path in (python / "bin/python", python / "Scripts/python.exe") if path.is_file()), None)
    if inside is not None:
        raise OptionError(f"{answer} is a folder. Name the interpreter in it; type {answer.spelling}={inside}.")
    if not python.is_file():
        raise OptionError(
            f"{answer}: there is no interpreter {python}. Give the python of another virtual environment; type for "
            f"example {answer.spelling}=~/venvs/next/bin/python."
        )
    return python


def engine(answer: OptionValue, reader: SettingsParser) -> EngineRequest:
    """Read the engine of the second side."""
    found = engines(answer, reader)
    if len(found) != 1 or answer.text.strip() == ALL:
        raise _several(answer, f"{len(found)} engines", found[0].label)
    return found[0]


def optimization(answer: OptionValue, reader: SettingsParser) -> str:
    """Read the optimization of the second side."""
    found, _ = lookups.optimizations(answer, reader)
    if len(found) != 1:
        raise _several(answer, f"{len(found)} builds", found[-1])
    return found[0]


def _several(answer: OptionValue, named: str, one: str) -> OptionError:
    told = f"{answer} names {named}, and the second side of an A/B has one"
    return OptionError(f"{told}; type for example {answer.spelling}={one}.")


def check_other_side(settings: Settings, answers: Mapping[str, OptionValue]) -> None:
    """Refuse a second side that can show nothing.

    Raises:
        OptionError: Too few pairs, or nothing in which it differs.
    """
    if settings.other is None:
        return
    said = next(answers[name] for name in SIDES if name in answers)
    most_pairs = settings.max_processes or MORE * settings.processes
    if most_pairs < FEWEST_PAIRS:
        raise OptionError(
            f"{said} needs {FEWEST_PAIRS} pairs of processes to know their spread, and at most {most_pairs} may be "
            f"measured. Type --sdperf-max-processes=12, or leave that option out."
        )
    if settings.other.engine is None and not settings.other.optimization and _is_ours(settings.other.python):
        raise OptionError(
            f"{said} is the interpreter that runs this suite, and nothing else differs, so there is nothing to "
            f"compare. Give the python of another virtual environment, or name another build with "
            f"--sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
        )


def _is_ours(python: Path | None) -> bool:
    """Whether an interpreter belongs to the environment of this one: a link to it elsewhere is another environment."""
    if python is None:
        return False
    ours = Path(sys.executable)
    return python.parent.resolve() == ours.parent.resolve() and python.resolve() == ours.resolve()
