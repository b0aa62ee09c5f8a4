"""`sdperf cache`: look at or shrink the cache of built models."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.parsing import size_bytes
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.cli.project import folders
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.settings import Settings


def add_to(commands: Commands) -> None:
    """Add the command and its actions."""
    cache = commands.add_parser("cache", help="look at or shrink the cache of built models")
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    for name, text, lines in (
        ("info", "say how much the cache holds", cache_info),
        ("prune", "remove built models, least recently used first, until --to is left; without it all", cache_prune),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "--cache-dir", type=Path, metavar="FOLDER", help="default: the folder of a run that is started here"
        )
        action.set_defaults(lines=lines)
        if name == "prune":
            action.add_argument(
                "--to", default="0", metavar="SIZE", help="what may stay, such as 20GB; default: 0, all are removed"
            )


def cache_info(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield what the cache holds."""
    cache = _cache(chosen)
    info = cache.info()
    yield f"{info.folder}: {info.entries} built models, {info.size_bytes / 10**9:.2f} GB"


def cache_prune(chosen: argparse.Namespace) -> Iterator[str]:
    """Remove the least recently used models and yield their keys."""
    cache, limit = _cache(chosen), size_bytes(OptionValue(chosen.to, "--to"))
    removed = cache.prune(limit)
    yield from (f"removed {key}" for key in removed)
    yield f"{len(removed)} built models removed"
    left = cache.info()
    if left.size_bytes > limit:
        yield f"{left.entries} built models stay: running tests use or build them"


def _cache(chosen: argparse.Namespace) -> Cache:
    folder = chosen.cache_dir or folders().cache
    if not folder.is_dir():
        raise OptionError(f"there is no cache at {folder}. It appears with the first run, or name it with --cache-dir.")
    return Cache(folder, size_bytes=Settings().cache_size_bytes)
