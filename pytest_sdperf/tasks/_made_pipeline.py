"""The user's function is called: what it returns is a pipeline that is supported, or the reason is said."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_sdperf.core.errors import OutOfMemoryError, PipelineError, is_out_of_memory
from pytest_sdperf.core.settings import PipelineFactory
from pytest_sdperf.tasks._execution import Execution

# Pipeline of diffusers -> its parts that have weights.
SUPPORTED: Mapping[str, tuple[str, ...]] = {
    "StableDiffusionPipeline": ("text_encoder", "unet", "vae"),
    "StableDiffusionXLPipeline": ("text_encoder", "text_encoder_2", "unet", "vae"),
}
_LIBRARIES = frozenset(("site-packages", "dist-packages"))


@contextlib.contextmanager
def made_pipeline(case: Execution) -> Iterator[Any]:
    """Make the pipeline; its module's folder is on `sys.path` as long as it is used.

    Args:
        case: Has `own`, and the kind of device.

    Raises:
        PipelineError: It cannot be made, or is not supported; the text says what to do.
        OutOfMemoryError: It does not fit.
    """
    factory, kind = case.factory, case.device_kind
    before = list(sys.path)
    if factory.folder:
        sys.path.insert(0, factory.folder)
    try:
        pipeline = _made(factory, _function(factory), kind)
        _check(factory, pipeline, kind)
        pipeline.set_progress_bar_config(disable=True)
        yield pipeline
    finally:
        sys.path[:] = before


def plain_class(thing: Any) -> type | None:
    """Return the class of diffusers or transformers that a thing is of, or derived from; None if there is none."""
    kinds = type(thing).__mro__
    return next((kind for kind in kinds if kind.__module__.partition(".")[0] in ("diffusers", "transformers")), None)


def unwrapped(module: Any) -> Any:
    """Return the module that torch's compiler wraps, or the module itself."""
    return getattr(module, "_orig_mod", module)


def _function(factory: PipelineFactory) -> Callable[[], Any]:
    try:
        module = importlib.import_module(factory.module)
    except Exception as error:
        raise PipelineError(
            f"{factory.spelled}: importing {factory.module} failed: {_told(error)}. Correct the module, or install "
            f"what it needs for {sys.executable}."
        ) from error
    function = getattr(module, factory.function, None)
    if not callable(function):
        raise PipelineError(f"{factory.spelled}: {_no_function(module, factory.function)}")
    return function  # type: ignore[no-any-return]  # whatever it returns is checked


def _no_function(module: ModuleType, name: str) -> str:
    own = [
        known
        for known, thing in vars(module).items()
        if not known.startswith("_") and inspect.isfunction(thing) and thing.__module__ == module.__name__
    ]
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.5)
    what = (
        f"{name} of {module.__name__} is no function" if hasattr(module, name) else f"{module.__name__} has no {name!r}"
    )
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{what}.{hint} Functions that it has: {', '.join(sorted(own)) or 'none'}."


def _made(factory: PipelineFactory, function: Callable[[], Any], device_kind: str) -> Any:
    try:
        return function()
    except Exception as error:
        if is_out_of_memory(error):
            raise OutOfMemoryError(f"{factory.spelled}: {_told(error)}") from error
        hint = ""
        if device_kind == "cpu" and any(word in str(error).lower() for word in ("cuda", "nvidia", "hip")):
            hint = " This run is on the CPU and shows its workers no GPU; type --sdperf-gpu=auto to run on one."
        raise PipelineError(
            f"{factory.spelled}: {factory.function}() raised {_told(error)}. It is called without arguments.{hint}"
        ) from error


def _told(error: Exception) -> str:
    """Quote an error, with the last line of the user's own code on the way to it."""
    # The first frame is of this module; libraries and Python's own machinery are nobody's to correct.
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [f for f in frames if not f.filename.startswith("<") and not _LIBRARIES.intersection(Path(f.filename).parts)]
    own = [frame for frame in own if Path(frame.filename) != Path(importlib.__file__)]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    text = f"{type(error).__name__}: {error}".removesuffix(": ").strip().removesuffix(".")
    return f"{text}{place}"


def _check(factory: PipelineFactory, pipeline: Any, device_kind: str) -> None:
    import diffusers

    known = ", ".join(SUPPORTED)
    supported = tuple(getattr(diffusers, name) for name in SUPPORTED)
    if not isinstance(pipeline, supported):
        what = type(pipeline).__name__
        other = isinstance(pipeline, diffusers.DiffusionPipeline)
        raise PipelineError(
            f"{factory.spelled}: {factory.function}() returned a {what}, which is "
            f"{'a pipeline that is not supported' if other else 'no diffusers pipeline'}. Supported are {known} and "
            f"classes derived from them."
        )
    for kind in (kind for kind in supported if isinstance(pipeline, kind)):
        for name in SUPPORTED[kind.__name__]:
            _check_part(factory, name, unwrapped(getattr(pipeline, name)))
    device = pipeline._execution_device  # noqa: SLF001 - the public `device` is the CPU where parts are offloaded
    wanted = "cpu" if device_kind == "cpu" else "cuda"
    if device.type != wanted:
        way = (
            "add --sdperf-gpu=auto" if wanted == "cpu" else f"let {factory.function}() move it: pipeline.to('{wanted}')"
        )
        raise PipelineError(
            f"{factory.spelled}: {factory.function}() returned a pipeline on {device}, and this run is on {wanted}. To "
            f"run it, {way}."
        )


def _check_part(factory: PipelineFactory, name: str, module: Any) -> None:
    if plain_class(module) is None or not hasattr(module, "state_dict"):
        raise PipelineError(
            f"{factory.spelled}: the {name} is a {type(module).__name__}, which is no module of diffusers or "
            f"transformers, so there are no weights that a plain one could be made of to compare with."
        )
