"""What CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES leave visible. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

_UUID_PREFIXES = ("GPU-", "MIG-")


def visible(ids: Sequence[Sequence[str]], value: str | None, *, numbered: int | None = None) -> tuple[int, ...]:
    """Return the positions that stay visible, in the order in which the program will number them.

    The rules are those of the CUDA runtime, which HIP copies: an entry is a position or the start of an identifier;
    the first entry that names nothing (`-1`, an empty one, an identifier that fits no device or several) ends the
    list; naming a device twice hides everything.

    Args:
        ids: Per device, in the vendor's order, every identifier it answers to (`GPU-...`, `MIG-...`).
        value: The variable's value; None if it is not set.
        numbered: How many of them can be named by position; None means all.
    """
    if value is None:
        return tuple(range(len(ids)))
    limit = len(ids) if numbered is None else numbered
    chosen: list[int] = []
    for entry in value.split(","):
        position = _position(ids, entry.strip())
        if position is None or (position >= limit and not _is_uuid(entry)):
            break
        if position in chosen:
            return ()
        chosen.append(position)
    return tuple(chosen)


def names_positions(value: str | None) -> bool:
    """Whether the variable holds positions, whose meaning depends on the order of the devices."""
    return value is not None and not _is_uuid(value) and _number(value.strip()) >= 0


def _is_uuid(entry: str) -> bool:
    return entry.strip().upper().startswith(_UUID_PREFIXES)


def _position(ids: Sequence[Sequence[str]], entry: str) -> int | None:
    if _is_uuid(entry):
        found = [
            position
            for position, names in enumerate(ids)
            if any(name.lower().startswith(entry.lower()) for name in names)
        ]
        return found[0] if len(found) == 1 else None
    number = _number(entry)
    return number if 0 <= number < len(ids) else None


def _number(entry: str) -> int:
    """Read leading digits as C's strtoul does (`1gpu` is 1); -1 if there are none."""
    digits = re.match(r"\+?([0-9]+)", entry)
    return int(digits.group(1)) if digits else -1
