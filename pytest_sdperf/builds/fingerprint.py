"""What a cache key holds besides options: the source code and the library versions that touch an artifact."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

_OWN = "pytest_sdperf"
# These rooms hold types and messages: they never change the bytes of an artifact.
_NEUTRAL = frozenset(
    f"pytest_sdperf.{name}"
    for name in (
        "core.catalog",
        "core.clock",
        "core.contracts",
        "core.device",
        "core.errors",
        "core.model",
        "core.settings",
        "core.values",
        "tasks",
    )
)
_VERSION = re.compile(r"^(?:__version__|version)\s*(?::\s*\w+\s*)?=\s*[\"']([^\"']+)[\"']", re.MULTILINE)
_VERSION_FILES = ("__init__.py", "version.py", "_version.py", "release.py")


def modules_of(*things: object) -> list[str]:
    """Return the modules of the classes of things, of all classes that these derive from, and of named rewrites.

    What a thing does may be written down in any of them, whichever package it belongs to.
    """
    kinds = [kind for thing in things for kind in type(thing).__mro__]
    named = (name.partition(":")[0] for thing in things for name in getattr(thing, "rewrites", ()))
    names = dict.fromkeys([*(kind.__module__ for kind in kinds), *named])
    return [name for name in names if name.partition(".")[0] not in sys.stdlib_module_names]


def source_hash(*modules: str) -> str:
    """Return a hash of the source of modules and of everything that they import from their package or from this one.

    Args:
        modules: Dotted names; a package stands for its `__init__`.
    """
    waiting, seen = list(modules), dict[str, str]()
    while waiting:
        name = waiting.pop()
        path = None if name in seen or name in _NEUTRAL else _source_of(name)
        if path is not None:
            text = path.read_text(encoding="utf-8")
            seen[name] = hashlib.sha256(text.encode()).hexdigest()
            parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
            waiting.extend(_imported(text, name.partition(".")[0], parent))
    return hashlib.sha256(repr(sorted(seen.items())).encode()).hexdigest()[:32]


def _source_of(name: str) -> Path | None:
    try:
        spec = _spec_of(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _spec_of(name: str) -> ModuleSpec | None:
    """Find a module without importing the packages above it, as `importlib.util.find_spec` would."""
    package, _, _ = name.rpartition(".")
    if not package or name in sys.modules:
        return importlib.util.find_spec(name)
    above = _spec_of(package)
    if above is None or above.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, above.submodule_search_locations)


@functools.lru_cache(maxsize=1024)
def _imported(text: str, package: str, parent: str) -> tuple[str, ...]:
    """Return the modules of `package` and of this one that a source text may import.

    `from a import b` may mean `a.b` or `a`, and a leading dot stands for `parent`.
    """
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parent.split(".")[: len(parent.split(".")) + 1 - node.level] if node.level else []
            source = ".".join(filter(None, [*above, node.module]))
            found += [source, *(f"{source}.{alias.name}" for alias in node.names)]
    followed = {package, _OWN}
    return tuple(name for name in found if name.partition(".")[0] in followed and name not in followed)


def library_versions(*names: str) -> dict[str, str]:
    """Return the versions of libraries as this interpreter would import them; `missing` for what is absent.

    The files of the module are read and it is not imported. Its metadata is asked only where they do not say: several
    distributions may bring one module (`onnxruntime`, `onnxruntime-gpu`), and the last one installed wins.

    Args:
        names: Names to import, of top-level modules.
    """
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return "missing"
    return _written_version(Path(spec.origin)) or _recorded_version(name) or "unknown"


def _written_version(origin: Path) -> str | None:
    package = origin.name == "__init__.py"
    files = [origin.with_name(name) for name in _VERSION_FILES] if package else [origin]
    for path in files:
        found = _VERSION.search(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
        if found:
            return found.group(1)
    return None


def _recorded_version(name: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name.replace("_", "-"))
    return None
