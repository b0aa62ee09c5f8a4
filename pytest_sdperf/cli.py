"""The console command `sdperf`: run, cache, doctor."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_sdperf import __version__
from pytest_sdperf.building.cache import Cache
from pytest_sdperf.errors import OptionError, SdperfError
from pytest_sdperf.options.flags import Answer, read_answers
from pytest_sdperf.options.parsing import size_bytes
from pytest_sdperf.options.profiles import read_project
from pytest_sdperf.options.reading import cache_folder
from pytest_sdperf.settings import Settings

SUITES = "pytest_sdperf.suites"
_USAGE_ERROR = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: Without the program's name; those of this process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Before argparse: every option after `run` is pytest's, --help too.
    if given[:1] == ["run"]:
        return run(given[1:])
    chosen = _parser().parse_args(given)
    try:
        for line in chosen.lines(chosen):
            print(line)
    except SdperfError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return _USAGE_ERROR
    return 0


def run(arguments: Sequence[str]) -> int:
    """Run the suites with pytest and the short option names."""
    return int(pytest.main(["-p", "pytest_sdperf.short_names", *suites(), *arguments]))


def suites() -> list[str]:
    """Return the arguments that name the suites: a package of the wheel, or the folder of a source tree."""
    if importlib.util.find_spec(SUITES) is not None:
        return ["--pyargs", SUITES]
    return [str(Path(__file__).resolve().parents[1] / "suites")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sdperf", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"pytest-sdperf {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("run", help="run the installed suites; takes pytest's options, with the short names")
    cache = commands.add_parser("cache", help="look at or shrink the cache of built models")
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    for name, text, lines in (
        ("info", "say how much the cache holds", cache_info),
        ("prune", "remove the least recently used models", cache_prune),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "--cache-dir", type=Path, metavar="FOLDER", help="default: the folder of a run that is started here"
        )
        action.set_defaults(lines=lines)
        if name == "prune":
            action.add_argument(
                "--to", default="0", metavar="SIZE", help="what may stay, such as 20GB; default: nothing"
            )
    checks = commands.add_parser("doctor", help="say which engines and devices work here, and what the others need")
    checks.set_defaults(lines=doctor)
    return parser


def cache_info(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield what the cache holds."""
    cache = _cache(chosen)
    info = cache.info()
    yield f"{info.folder}: {info.entries} built models, {info.size_bytes / 10**9:.2f} GB"


def cache_prune(chosen: argparse.Namespace) -> Iterator[str]:
    """Remove the least recently used models and yield their keys."""
    cache, limit = _cache(chosen), size_bytes(Answer(chosen.to, "--to"))
    removed = cache.prune(limit)
    yield from (f"removed {key}" for key in removed)
    yield f"{len(removed)} built models removed"
    left = cache.info()
    if left.size_bytes > limit:
        yield f"{left.entries} built models stay: running tests use or build them"


def doctor(_: argparse.Namespace) -> Iterator[str]:
    """Yield what is known about each engine and each device, here and on hardware."""
    # Not at the top: pytest warns about plug-ins that were imported before it rewrites their asserts.
    from pytest_sdperf.doctor import lines

    yield from lines()


def _cache(chosen: argparse.Namespace) -> Cache:
    folder = chosen.cache_dir or project_cache_folder()
    if not folder.is_dir():
        raise OptionError(f"there is no cache at {folder}. It appears with the first run, or name it with --cache-dir.")
    return Cache(folder, size_bytes=Settings().cache_size_bytes)


def project_cache_folder() -> Path:
    """Return the cache folder that a run in this folder would use: pytest reads its configuration, and stops there.

    Raises:
        OptionError: pytest cannot read it; it has printed why.
    """
    asked = _CacheFolder()
    # By its name: then it is there whether or not plug-ins are loaded by themselves.
    status = pytest.main(["-p", "sdperf"], plugins=[asked])
    if asked.folder is None:
        raise OptionError(
            f"pytest cannot read the configuration of this folder (exit status {int(status)}). Correct it, or name the "
            "cache with --cache-dir=FOLDER."
        )
    return asked.folder


class _CacheFolder:
    """A plug-in of pytest that asks for the cache folder instead of running tests."""

    folder: Path | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Read the option as a run does."""
        answers = read_answers(config, read_project(config.rootpath).options)
        self.folder = cache_folder(answers, started_in=config.invocation_params.dir, root=config.rootpath)
        return 0
