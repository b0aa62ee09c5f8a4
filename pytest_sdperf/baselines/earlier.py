"""Baseline files of the schema before this one, read as if they had been written today.

What reads them writes them in the present schema with the next session that it accepts.
"""

from __future__ import annotations

from typing import Any

_NAMES: dict[str, str] = {"floating": "dtype", "vae_floating": "vae_dtype"}
_GIVEN, _EXTERNAL = "given", "external"


def from_schema_1(data: Any) -> Any:
    """Return the content of a file of schema 1 under the names of schema 2: dtypes, and graphs exported elsewhere."""
    if isinstance(data, list):
        return [from_schema_1(one) for one in data]
    if not isinstance(data, dict):
        return data
    renamed = {current_key(_NAMES.get(str(name), str(name))): from_schema_1(value) for name, value in data.items()}
    if renamed.get("exporter") == _GIVEN:
        renamed["exporter"] = _EXTERNAL
    return renamed


def current_key(key: str) -> str:
    """Return the key of a case as this version writes it."""
    return key.replace(f" exporter={_GIVEN} ", f" exporter={_EXTERNAL} ")
