"""What a file of constraints pins, and what the environment of this interpreter has installed instead."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def is_for_here(requirement: Requirement) -> bool:
    """Say whether a requirement is for this Python and platform."""
    return requirement.marker is None or requirement.marker.evaluate()


def pins(file: Path) -> dict[str, str]:
    """Return the version of each package that a file of constraints has for this Python and platform.

    Raises:
        ValueError: A line names no single version.
    """
    lines = (line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    found = {}
    for requirement in filter(is_for_here, map(Requirement, lines)):
        if not re.fullmatch(r"==[^*]+", str(requirement.specifier)):
            raise ValueError(f"{file}: {requirement} is no pin. Type `tox -e pin`, which writes the file anew.")
        found[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    return found


def moved(pinned: Mapping[str, str]) -> dict[str, str]:
    """Return the installed version of each package that has another one, or none, among the pinned."""
    folder = sysconfig.get_paths()["purelib"]  # setuptools brings packages of its own in a folder below
    installed = {canonicalize_name(one.name): one.version for one in metadata.distributions(path=[folder])}
    # A local version such as 2.13.0+cpu is another build of the same release.
    return {name: version for name, version in installed.items() if pinned.get(name) != version.partition("+")[0]}
