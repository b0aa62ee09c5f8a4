"""The console command `sdperf`: run, cache, doctor."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_sdperf import __version__
from pytest_sdperf.building.cache import Cache
from pytest_sdperf.building.fingerprint import library_versions
from pytest_sdperf.catalog import Catalog
from pytest_sdperf.contracts import Engine
from pytest_sdperf.device import Device, DeviceKind, DeviceProbe
from pytest_sdperf.errors import DeviceMissingError, OptionError, SdperfError
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
    """Yield one line per engine and per device."""
    # Not at the top: pytest warns about plug-ins that were imported before it rewrites their asserts.
    from pytest_sdperf import builtins

    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    found = {name: _devices(probe) for name, probe in catalog.probes.items().items()}
    kinds = {device.kind for devices in found.values() for device in devices if isinstance(device, Device)}
    yield "engines"
    yield from (f"  {name}: {_state(engine, kinds)}" for name, engine in catalog.engines.items().items())
    yield "devices"
    for name, devices in found.items():
        told = [f"{one.name} ({one.slug})" if isinstance(one, Device) else one for one in devices]
        yield from (f"  {name}: {text}" for text in told or ["none"])
    yield from _clocks(catalog.probes.items(), found)


def _clocks(probes: Mapping[str, DeviceProbe], found: Mapping[str, Sequence[Device | str]]) -> Iterator[str]:
    """Yield how the owner of a GPU may hold its clocks; nothing here ever does it."""
    pairs = [(probes[name], device) for name, devices in found.items() for device in devices]
    known = [commands for probe, one in pairs if isinstance(one, Device) and (commands := probe.clock_commands(one))]
    if known:
        yield "clocks: the owner of a GPU may lock them while it is measured, and let them go afterwards"
    for commands in known:
        yield f"  {commands.lock}"
        yield f"  {commands.unlock}"


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


def _state(engine: Engine, here: Collection[DeviceKind]) -> str:
    """Say whether an engine is ready for the GPU of this machine, if it runs on such a one."""
    kind = next((kind for kind in engine.device_kinds if kind in here and kind != "cpu"), engine.device_kinds[0])
    missing = engine.missing(kind)
    if missing is not None:
        return missing
    versions = library_versions(*(need.module.partition(".")[0] for need in engine.requirements))
    named = (f"{name} {version}" for name, version in versions.items())
    return f"ready ({', '.join(named)}; runs on {', '.join(engine.device_kinds)})"


def _devices(probe: DeviceProbe) -> Sequence[Device | str]:
    """Return the devices of a probe, or why it found none."""
    try:
        return probe.find()
    except DeviceMissingError as error:
        return [str(error)]
