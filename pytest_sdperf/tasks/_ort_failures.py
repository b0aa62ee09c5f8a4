"""What is said where the optimizer of onnxruntime fails: at which of its fusions, and what its user can do."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_sdperf.core.errors import BuildError


def failed(error: Exception, optimizations: Mapping[str, Sequence[str]]) -> BuildError:
    """Return the error that tells of an exception within the optimizer.

    Args:
        error: The exception.
        optimizations: Optimization -> the switches of the optimizer that it sets.
    """
    import onnxruntime

    fusion = _fusion(error)
    where = f" in its fusion {fusion}" if fusion else ""
    what = f"the optimizer of onnxruntime {onnxruntime.__version__} failed{where}: {type(error).__name__}: {error}"
    return BuildError(f"{what.rstrip('. ')}. {_advice(fusion, optimizations)}")


def invalid(error: BuildError) -> BuildError:
    """Return the error that tells that what the optimizer made is no valid model."""
    text = str(error).rstrip(".")
    return BuildError(f"what the optimizer of onnxruntime made is no valid model: {text}. {_advice('', {})}")


def _advice(fusion: str, optimizations: Mapping[str, Sequence[str]]) -> str:
    fault = "That is a fault of onnxruntime, not of pytest_sdperf"
    optimization = _optimization(fusion, optimizations)
    less = f", or leave that fusion out with --optimization=all-{optimization}" if optimization else ""
    return f"{fault}. Fuse the graph with --fuser=native{less}."


def _fusion(error: Exception) -> str:
    """Return the innermost module of a fusion in which an exception was raised; empty if there is none."""
    stems = [Path(frame.filename).stem for frame in traceback.extract_tb(error.__traceback__)]
    names = [stem.removeprefix("fusion_") for stem in stems if stem.startswith("fusion_")]
    return next((name for name in reversed(names) if name not in ("base", "utils", "options")), "")


def _optimization(fusion: str, optimizations: Mapping[str, Sequence[str]]) -> str:
    """Return the optimization that switches a fusion on: names of modules and switches differ at their ends."""
    found = {
        _plain(switch.removeprefix("enable_")): optimization
        for optimization, switches in optimizations.items()
        for switch in switches
    }
    fitting = [name for name in found if fusion and _plain(fusion).startswith(name)]
    return found[max(fitting, key=len)] if fitting else ""


def _plain(name: str) -> str:
    return name.replace("_", "")
