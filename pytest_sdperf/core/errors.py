"""Errors that a user can act on.

Every message says what was given, what is allowed and what to type next. The door (`plugin.py`, `cli/`)
turns these into `pytest.UsageError` or an exit status; nothing below the door knows pytest.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# What the libraries say when the device or the host has no memory left. They raise RuntimeError or their own types.
_OUT_OF_MEMORY_WORDS = (
    "out of memory",
    "failed to allocate memory",
    "bad_alloc",
    "alloc_failed",
    "cuda error 2:",
    "cuda failure 2",
    "hiperroroutofmemory",
)


class SdperfError(Exception):
    """Base of every error that is addressed to a user; its text is complete and needs no traceback."""


class UnknownNameError(SdperfError):
    """A name that the catalog does not hold."""

    def __init__(self, kind: str, given: str, known: Iterable[str], *, hint: str = "", listed_by: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
        parts = [f"unknown {kind} {given!r}."]
        if near:
            parts.append(f"Did you mean {near[0]!r}?")
        if listed_by:
            parts.append(f"Type `{listed_by}` to see all {len(names)}.")
        else:
            parts.append(f"Known: {', '.join(names) if names else 'none'}.")
        if hint:
            parts.append(hint)
        super().__init__(" ".join(parts))
        self.kind, self.given, self.known, self.nearest = kind, given, tuple(names), near[0] if near else None

    @classmethod
    def check(cls, kind: str, names: Iterable[str], known: Iterable[str]) -> None:
        """Raise this error for the first of `names` that is not among the known ones."""
        allowed = tuple(known)
        for name in names:
            if name not in allowed:
                raise cls(kind, name, allowed)


class OptionError(SdperfError):
    """An option, ini value or marker that cannot be understood."""


class DuplicateNameError(SdperfError):
    """Two plug-ins registered the same name."""


class CheckError(SdperfError):
    """A check of a plug-in that breaks the contract of `core.check.Check`."""


class DeviceMissingError(SdperfError):
    """The device that was asked for is not in this machine."""


class EngineMissingError(SdperfError):
    """An engine that was asked for by name cannot run in this environment."""


class WeightsError(SdperfError):
    """A weights folder that is incomplete or not safe to load."""


class OnnxFolderError(SdperfError):
    """A folder of exported graphs that is incomplete or not safe to load."""


class PipelineError(SdperfError):
    """A pipeline of the user's own that cannot be made, or that is not supported."""


class BuildError(SdperfError):
    """A component could not be exported, optimized or checked."""


class UnsupportedGraphError(SdperfError):
    """A graph whose operators have no kernel for their sizes: an engine would throw in the middle of a run."""

    def __init__(self, component: str, limits: Iterable[str]) -> None:
        super().__init__(
            f"the {component} graph cannot run on a CUDA GPU: {'; '.join(limits)}. Choose a model of released width "
            "(--model=sd15), or leave that optimization out (--optimization=all-NAME)."
        )


class UnsupportedOptionError(SdperfError):
    """A value of an engine's option that a component cannot be run with on this device."""


class NoReferenceError(SdperfError):
    """There is nothing that outputs could be compared with."""


class CacheError(SdperfError):
    """The cache folder cannot be read or written."""


class BaselineError(SdperfError):
    """A baseline file that cannot be trusted."""


class ResultsError(SdperfError):
    """A file of saved results that cannot be read, or does not fit what is asked of it."""


class WorkerError(SdperfError):
    """A worker process that ended without an answer.

    Attributes:
        reason: `crash`, `killed`, `timeout`, `protocol` or `error`; `refused` if it could not be started, `stuck` if it
            cannot be ended.
        tail: The last lines of the worker's stderr.
    """

    def __init__(self, message: str, *, reason: str, tail: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.tail = tail


class OutOfMemoryError(SdperfError):
    """The device ran out of memory: a value of the measurement, not a fault of the suite."""


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an exception, or one that caused it, means that memory ran out."""
    seen: BaseException | None = error
    while seen is not None:
        text = f"{type(seen).__name__} {seen}".lower()
        if isinstance(seen, MemoryError) or "outofmemory" in text or any(w in text for w in _OUT_OF_MEMORY_WORDS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
