"""Writing baseline files: sorted text with small diffs, one writer at a time, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.stored import SCHEMA, Baseline, read
from pytest_sdperf.core.errors import BaselineError

SIGNIFICANT_DIGITS = 7
LINE_LENGTH = 100
LOCK_TIMEOUT_S = 60.0


def to_text(baseline: Baseline) -> str:
    """Return the text of a file."""
    data = {"schema": SCHEMA, **msgspec.to_builtins(baseline)}
    return pretty(data) + "\n"


def pretty(data: Any, indent: str = "") -> str:
    """Return JSON text whose diffs are small: sorted names, rounded numbers, and one line for all that fits on one.

    Raises:
        ValueError: A number is not finite.
    """
    line = json.dumps(rounded(data), sort_keys=True, allow_nan=False)
    plain = not isinstance(data, dict) and not (
        isinstance(data, (list, tuple)) and any(isinstance(item, (dict, list, tuple)) for item in data)
    )
    if plain or len(indent) + len(line) <= LINE_LENGTH:
        return line
    inner = indent + " "
    if isinstance(data, dict):
        items = [f"{json.dumps(name)}: {pretty(data[name], inner)}" for name in sorted(data)]
    else:
        items = [pretty(item, inner) for item in data]
    opening, closing = "{}" if isinstance(data, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closing}"


def rounded(value: Any) -> Any:
    """Round numbers to what a clock can know; 7 digits of a second's fraction are below any timer's noise."""
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def update(path: Path, change: Callable[[Baseline | None], Baseline], *, lock_dir: Path) -> Baseline:
    """Read a file, change its content and write it back, while no other process does.

    Args:
        path: The file; it may not exist yet.
        change: Gets the present content, or None, and returns the new one.
        lock_dir: Folder for lock files, outside the reviewed folder.

    Raises:
        BaselineError: The file is there but cannot be trusted (it is not overwritten), cannot be written, or
            another process holds it.
        PrivacyError: The new content holds private text.
    """
    with locked(path, lock_dir=lock_dir):
        changed = change(read(path))
        write_checked(path, to_text(changed))
        return changed


def write_checked(path: Path, text: str) -> None:
    """Write JSON text that others will read, whole or not at all.

    Raises:
        PrivacyError: It holds private text.
        OSError: It cannot be written.
    """
    privacy.check(json.loads(text), privacy.identity())
    write_atomically(path, text)


@contextlib.contextmanager
def locked(path: Path, *, lock_dir: Path) -> Iterator[None]:
    """Keep other processes from changing a file meanwhile.

    Raises:
        BaselineError: Another process holds it, or it cannot be written.
    """
    import filelock

    lock = lock_dir / f"{path.stem}-{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]}.lock"
    try:
        lock_dir.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(lock, timeout=LOCK_TIMEOUT_S):
            yield
    except filelock.Timeout:
        raise BaselineError(
            f"another process has held {path} for {LOCK_TIMEOUT_S:.0f} s. Wait until it has ended and type the command "
            f"again."
        ) from None
    except OSError as error:
        raise BaselineError(
            f"cannot write baseline file {path}: {error.strerror}. It is unchanged. Make its folder writable, or name "
            f"another one with --sdperf-baselines=FOLDER."
        ) from error


def check_writable(path: Path) -> None:
    """Find out whether `write_atomically` can work, without touching the file.

    Raises:
        OSError: It cannot, or its folder does not exist: more likely a slip than a wish.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"):
        pass


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content in one step, so that a reader or a power cut sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
