"""Files of the cache, seen from both sides: hashing, and what is wrong with a folder or a disk, told to the user.

Standard library only: tasks use it in workers, where the cache itself is not imported.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from pytest_sdperf.core.errors import CacheError

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_BLOCK_BYTES = 2**20
_RUST_ERROR = re.compile(r"\(os error (\d+)\)")


def meant_folder(path: Path) -> str:
    """Ask which folder is meant by a path that leads to none, as ` Did you mean X?`; empty where nothing is like it."""
    wrong = path
    while wrong != wrong.parent and not wrong.parent.is_dir():
        wrong = wrong.parent
    with contextlib.suppress(OSError):  # whose folders may not be listed
        names = sorted(one.name for one in wrong.parent.iterdir() if one.is_dir())
        for name in difflib.get_close_matches(wrong.name, names):
            found = wrong.parent / name / path.relative_to(wrong)
            if found.is_dir():
                return f" Did you mean {found}?"
    return ""


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as hex digits, reading it once in blocks."""
    digest = hashlib.sha256()  # hashlib.file_digest does not exist in Python 3.10
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def folder_bytes(folder: Path) -> int:
    """Return the size of every file below `folder` in bytes; files that vanish meanwhile count as nothing."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(base) / name).lstat().st_size
    return total


def free_bytes(folder: Path) -> int:
    """Return the room on the disk of a folder that need not exist yet."""
    return shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists())).free


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn a full or unwritable disk into a `CacheError` that says what to type; other errors pass through.

    Args:
        folder: The cache folder, as the user knows it.

    Raises:
        CacheError: The folder may not be written, or its disk is full. Libraries written in Rust (safetensors)
            give no `OSError`, only its number in their text.
    """
    try:
        yield
    except CacheError:
        raise
    except Exception as error:
        number = _error_number(error)
        if number in _FULL:
            raise CacheError(
                f"the disk of the cache folder {folder} is full: {os.strerror(number)}. Make room with "
                f"`sdperf cache prune`, or choose another folder with --sdperf-cache-dir=FOLDER."
            ) from error
        if number in _REFUSED and isinstance(error, OSError):
            raise CacheError(
                f"the cache folder {folder} cannot be written: {os.strerror(number)}. Make it writable, or choose "
                f"another folder with --sdperf-cache-dir=FOLDER."
            ) from error
        raise


def _error_number(error: Exception) -> int:
    if isinstance(error, OSError):
        return error.errno or 0
    found = _RUST_ERROR.search(str(error))
    return int(found.group(1)) if found else 0
