"""Answers -> frozen `Settings`: every value checked against what is registered, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_sdperf.cases.options.engine_requests import Profile
from pytest_sdperf.cases.options.flags import BY_NAME, OPTIONS
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.other_side import check_other_side
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.settings import OtherSide, Selection, Settings


def read_answers(config: pytest.Config, project: Mapping[str, str]) -> dict[str, OptionValue]:
    """Return what was said, by option name: flag over ini value over those of the `project`'s `[tool.sdperf]`."""
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
    given = config.getoption(destination, None)
    return OptionValue(*given) if given is not None else None


@dataclass(frozen=True)
class SettingsParser:
    """Turns the answers of one run into settings.

    Attributes:
        answers: What was said, by option name, as `compatible` leaves it.
        catalog: What is registered.
        profiles: Profiles of the project, by name.
        device_kind: Kind of the device that the run asks for.
        started_in: Folder that paths on the command line are relative to.
        root: Folder that paths in configuration files are relative to.
    """

    answers: Mapping[str, OptionValue]
    catalog: Catalog
    profiles: Mapping[str, Profile]
    device_kind: str
    started_in: Path
    root: Path

    def settings(self) -> Settings:
        """Build the settings.

        Raises:
            OptionError: A value that cannot be understood, or a second side that can show nothing.
            UnknownNameError: A name that is not registered.
        """
        parts: dict[str, dict[str, Any]] = {"": {}, "selection": {}, "other": {}}
        for option in OPTIONS:
            if option.name in self.answers or option.default is not None:
                value = self.value(option.name)
                values = value if len(option.fields) > 1 else (value,)
                for (part, field), one in zip(option.fields, values, strict=True):
                    parts[part][field] = one
        other = OtherSide(**parts["other"]) if parts["other"] else None
        settings = Settings(selection=Selection(**parts["selection"]), other=other, **parts[""])
        check_other_side(settings, self.answers)
        return settings

    def value(self, name: str, *, usual: Any = None) -> Any:
        """Return the value of one option: what was said, or its default; `usual` where it declares none."""
        option = BY_NAME[name]
        if name in self.answers:
            return option.parse(self.answers[name], self)
        return option.default(self) if option.default is not None else usual
