"""The suites of a source tree, which an editable install is: they lie beside the package, and in the wheel inside it.

PYTEST_DONT_REWRITE: it asserts nothing, and may be imported before pytest loads it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

SUITES = "pytest_sdperf.suites"
_BESIDE = Path(__file__).resolve().parents[2] / "suites" / "__init__.py"


class _Finder:
    """Finds the suites beside the package by the name that they have in the wheel."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where they are; None for anything else. The signature is that of `sys.meta_path`."""
        if name != SUITES or not _BESIDE.is_file():
            return None
        return spec_from_file_location(name, _BESIDE, submodule_search_locations=[str(_BESIDE.parent)])


_FINDER = _Finder()


def find_suites() -> None:
    """Let `pytest_sdperf.suites` be found here too, as in `pytest --pyargs pytest_sdperf.suites`."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)  # after all others: those of a wheel are found before
