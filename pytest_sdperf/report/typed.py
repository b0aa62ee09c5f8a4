"""A command as somebody typed it, with other options: split into words, and joined, as a shell does it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence


def with_option(command: str, option: str, *, also: str = "") -> str:
    """Add an option; a flag that is there stays alone, and another value of the same option makes room.

    Args:
        command: What was typed.
        option: `--flag`, or `--name=value`.
        also: Another name of the same option.
    """
    words = shlex.split(command)
    name, _, value = option.partition("=")
    names = {name, also or name}
    if not value:
        return command if names & set(words) else shlex.join([*words, option])
    return shlex.join([*_without(words, names), option])


def without(command: str, names: Collection[str]) -> str:
    """Take options away, each with its value.

    Args:
        command: What was typed.
        names: Of the options.
    """
    return shlex.join(_without(shlex.split(command), names))


def without_ini(command: str, name: str) -> str:
    """Take the value of a configuration file away, which is typed as `-o name=value`."""
    kept: list[str] = []
    for word in shlex.split(command):
        if word.startswith(f"{name}=") and kept[-1:] in (["-o"], ["--override-ini"]):
            kept.pop()
        elif not word.startswith((f"-o{name}=", f"--override-ini={name}=")):
            kept.append(word)
    return shlex.join(kept)


def values_of(command: str, *names: str) -> Iterator[str]:
    """Yield the values that an option was given, by any of its names: `--name=value` or `--name value`."""
    words = shlex.split(command)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names and (equals or after):
            yield value if equals else after


def _without(words: Sequence[str], names: Collection[str]) -> list[str]:
    kept: list[str] = []
    has_value = False
    for word in words:
        if has_value and not word.startswith("-"):
            has_value = False
            continue
        name, equals, _ = word.partition("=")
        has_value = name in names and not equals
        if name not in names:
            kept.append(word)
    return kept
