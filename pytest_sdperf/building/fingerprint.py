"""What a cache key holds besides options: the source code and the library versions that touch an artifact."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

# These rooms hold types and messages: they never change the bytes of an artifact.
_NEUTRAL = frozenset(
    f"pytest_sdperf.{name}"
    for name in ("catalog", "clock", "contracts", "device", "errors", "settings", "tasks", "values")
)
_VERSION = re.compile(r"^__version__\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)


def source_hash(*modules: str) -> str:
    """Return a hash of the source of modules and of everything that they import from their own top-level package.

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
            waiting.extend(_imported(text, name.partition(".")[0]))
    return hashlib.sha256(repr(sorted(seen.items())).encode()).hexdigest()[:32]


def _source_of(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _imported(text: str, package: str) -> Iterator[str]:
    """Yield the modules of `package` that a source text may import: `from a import b` may mean `a.b` or `a`."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.partition(".")[0] == package and name != package)


def library_versions(*names: str) -> dict[str, str]:
    """Return the versions of libraries as this interpreter would import them; `missing` for what is absent.

    Args:
        names: Names to import; `onnxruntime` may come from any of several distributions, so its module is asked.
    """
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        pass
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return "missing"
    found = _VERSION.search(Path(spec.origin).read_text(encoding="utf-8"))
    return found.group(1) if found else "unknown"
