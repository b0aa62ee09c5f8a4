"""The grammar of `--engine`: `ort-cuda:cuda_graph=on,sdpa=cudnn,torch` -> requests.

A comma separates engines, a colon begins the options of one, and a piece with `=` belongs to the engine on its left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Engine
from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.settings import EngineRequest

if TYPE_CHECKING:
    from pytest_sdperf.cases.options.reading import SettingsParser

ALL = "all"
_GRAMMAR = "Allowed: NAME or NAME:OPTION=VALUE,OPTION=VALUE; type for example ort-cpu:threads=4,torch."


@dataclass(frozen=True)
class Profile:
    """One named way to run an engine.

    Attributes:
        name: What `--engine` calls it.
        engine: Catalog name of the engine.
        options: Options of the engine, as text.
        python: Interpreter of the worker; None is the suite's own.
        env: Environment variables of the worker.
    """

    name: str
    engine: str
    options: Mapping[str, str] = field(default_factory=dict)
    python: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Piece:
    """One engine as it was typed."""

    label: str
    options: dict[str, str] = field(default_factory=dict)


def engines(answer: OptionValue, reader: SettingsParser) -> tuple[EngineRequest, ...]:
    """Read engines with their options."""
    return parse_engines(answer.text, reader.catalog, reader.profiles, device_kind=reader.device_kind)


def parse_engines(
    text: str, catalog: Catalog, profiles: Mapping[str, Profile], *, device_kind: str, by_name: bool = True
) -> tuple[EngineRequest, ...]:
    """Turn the text of the option, such as `ort-cpu:threads=4,torch`, into requests, in the order given, each once.

    `all` means the engines that run on `device_kind`; these are never asked for by name, the others are where `by_name`
    says so, and then a missing package is an error.

    Raises:
        OptionError: Malformed text, or a value that the engine does not take.
        UnknownNameError: An unknown engine, profile or option, with the nearest name and the list.
    """
    requests: list[EngineRequest] = []
    for piece in _pieces(text):
        if piece.label == ALL:
            requests += _every_engine(piece, catalog, device_kind)
        else:
            requests.append(_request(piece, catalog, profiles, by_name=by_name))
    return tuple(request for index, request in enumerate(requests) if request not in requests[:index])


def check_profiles(catalog: Catalog, profiles: Mapping[str, Profile]) -> None:
    """Check every profile, also those that this run does not use.

    Raises:
        OptionError: A name that the grammar cannot take or that an engine has, or a value of an option.
        UnknownNameError: An unknown engine or option.
    """
    for profile in profiles.values():
        where = f"[tool.sdperf.engines.{profile.name}]"
        if not re.fullmatch(r"[A-Za-z0-9._-]+", profile.name) or profile.name == ALL:
            raise OptionError(
                f"{where}: {profile.name!r} cannot name a profile. Allowed: letters, digits, dots, hyphens and "
                f"underscores, other than {ALL!r}. Rename it, for example to my-engine."
            )
        if profile.name in catalog.engine_names:
            raise OptionError(
                f"{where} has the name of an engine. Rename the profile, for example to my-{profile.name}."
            )
        _merged(profile.engine, catalog, profile.options)


def canonical_options(engine: Engine, given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Check options against the engine's; return those that differ from its defaults, sorted by name.

    Raises:
        OptionError: A value that the option does not take.
        UnknownNameError: An option that the engine does not have.
    """
    for name, value in given.items():
        if name not in engine.options:
            raise UnknownNameError(f"option of engine {engine.name!r}:", name, engine.options)
        option = engine.options[name]
        if option.choices and value not in option.choices:
            allowed = f"Allowed: {', '.join(option.choices)}"
        elif not option.choices and not re.fullmatch(option.pattern, value):
            allowed = f"Allowed: text that matches {option.pattern}"
        else:
            continue
        raise OptionError(
            f"engine {engine.name!r} does not take {name}={value}. {allowed}; "
            f"type for example {engine.name}:{name}={option.default}."
        )
    return tuple(sorted((name, value) for name, value in given.items() if value != engine.options[name].default))


def _merged(name: str, catalog: Catalog, given: Mapping[str, str]) -> tuple[Engine, tuple[tuple[str, str], ...]]:
    """Return the engine that a name means, with the options that an alias stands for among the given ones."""
    engine, meant = catalog.engine_of(name)
    for option, value in meant.items():
        if given.get(option, value) != value:
            raise OptionError(
                f"engine {name!r} is {engine.name}:{option}={value}, and cannot take {option}={given[option]}. "
                f"Leave that option out, or type {engine.name}:{option}={given[option]}."
            )
    return engine, canonical_options(engine, {**meant, **given})


def _pieces(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    for part in (part.strip() for part in text.split(",")):
        head, equals, _ = part.partition("=")
        if not part:
            raise OptionError(f"{text!r} holds an empty name. {_GRAMMAR}")
        if not equals and ":" not in part:
            pieces.append(_Piece(part))
            continue
        option = part
        if ":" in head or not equals:
            label, _, option = part.partition(":")
            pieces.append(_Piece(label.strip()))
        if not pieces or not pieces[-1].label:
            raise OptionError(f"{text!r} gives the option {option!r} to no engine. {_GRAMMAR}")
        _add_option(pieces[-1], option, text)
    return pieces


def _add_option(piece: _Piece, option: str, text: str) -> None:
    name, equals, value = (part.strip() for part in option.partition("="))
    if not (name and equals and value):
        raise OptionError(f"{text!r}: {option!r} is not an option of engine {piece.label!r}. {_GRAMMAR}")
    if name in piece.options:
        raise OptionError(f"{text!r} gives the option {name!r} of engine {piece.label!r} twice. Leave one out.")
    piece.options[name] = value


def _every_engine(piece: _Piece, catalog: Catalog, device_kind: str) -> list[EngineRequest]:
    if piece.options:
        raise OptionError(f"{ALL!r} takes no options. Name the engine that they belong to. {_GRAMMAR}")
    return [
        EngineRequest(label=name, engine=name, by_name=False)
        for name, engine in catalog.engines.items().items()
        if device_kind in engine.device_kinds
    ]


def _request(piece: _Piece, catalog: Catalog, profiles: Mapping[str, Profile], *, by_name: bool) -> EngineRequest:
    profile = profiles.get(piece.label, Profile(piece.label, piece.label))
    if profile.engine not in catalog.engine_names:
        raise UnknownNameError("engine", piece.label, (*catalog.engine_names, *profiles, ALL))
    if profile.python is not None and not profile.python.is_file():
        raise OptionError(
            f"profile {profile.name!r} names the interpreter {profile.python}, which does not exist. "
            f"Create that environment, or correct python in [tool.sdperf.engines.{profile.name}]."
        )
    engine, options = _merged(profile.engine, catalog, {**profile.options, **piece.options})
    return EngineRequest(
        # One case has one key, whichever name of its engine was typed.
        label=piece.label if piece.label in profiles else engine.name,
        engine=engine.name,
        options=options,
        python=profile.python,
        env=profile.env,
        by_name=by_name,
    )
