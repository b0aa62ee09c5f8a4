"""A name for content: equal parts, equal key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def content_key(parts: Mapping[str, Any]) -> str:
    """Return 32 hex digits that identify `parts`, whatever the order of its keys.

    Args:
        parts: JSON data: `1`, `1.0`, `"1"`, `True` and `None` all differ; a tuple equals the list of its items.

    Raises:
        TypeError: Something that JSON cannot hold, or a mapping key that is not text (JSON would merge `1` and `"1"`).
    """
    text = json.dumps(_plain(parts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a content key holds text keys only, not {key!r}")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
