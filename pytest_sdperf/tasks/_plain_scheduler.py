"""What a scheduler does, in a plain class of diffusers: by its very settings, and by numbers that were changed in it.

diffusers corrects settings of a scheduler where nobody asks it to: the constructor of a pipeline changes `steps_offset`
and `clip_sample`, loading a pipeline calls that, and `from_config` forgets what was left at its default. So none of
these gets to see the scheduler that counts, which is put into the finished pipeline.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.errors import PipelineError
from pytest_sdperf.tasks._made_pipeline import plain_class

FILE = "exact-scheduler.pt"
# What was made for the steps of an earlier call is made again for these, before two schedulers are compared.
_STEPS = 4


def stand_in() -> Any:
    """Return a scheduler of which the constructor of a pipeline corrects nothing, until the right one is put there."""
    import diffusers

    kind: Any = diffusers.DDIMScheduler
    return kind(steps_offset=1, clip_sample=False)


def plain_scheduler(scheduler: Any, spelled: str) -> Any:
    """Return a scheduler of a plain class that does what another one does.

    Args:
        scheduler: Of a class of diffusers, or of one that is derived from such a class.
        spelled: What named its pipeline, for messages.

    Raises:
        PipelineError: It is of another class.
    """
    kind = plain_class(scheduler)
    if kind is None:
        raise PipelineError(
            f"{spelled}: the scheduler is a {type(scheduler).__name__}, which is none of diffusers, nor derived from "
            f"one. Use one of diffusers."
        )
    plain = kind(**_settings(scheduler))
    _set(plain, changed_numbers(scheduler))
    return plain


def changed_numbers(scheduler: Any) -> dict[str, Any]:
    """Return the numbers that a scheduler holds and its settings do not lead to, such as betas that were rescaled.

    Args:
        scheduler: Of a class of diffusers, or of one that is derived from such a class.
    """
    kind: Any = plain_class(scheduler)
    own, fresh = copy.copy(scheduler), kind(**_settings(scheduler))
    for one in (own, fresh):
        with contextlib.suppress(ValueError):
            one.set_timesteps(_STEPS)
    found, usual = (_numbers(one) for one in (own, fresh))
    return {name: number for name, number in found.items() if name in usual and not _equal(number, usual[name])}


def write(scheduler: Any, folder: Path) -> None:
    """Write a plain scheduler into the folder of its pipeline."""
    import torch

    kind = type(scheduler)
    told = {
        "module": kind.__module__,
        "name": kind.__name__,
        "settings": _settings(scheduler),
        "numbers": changed_numbers(scheduler),
    }
    torch.save(told, folder / FILE)


def read(folder: Path) -> Any:
    """Return the scheduler that was written into the folder of a pipeline."""
    import torch

    told = torch.load(folder / FILE, map_location="cpu", weights_only=True)
    scheduler = getattr(importlib.import_module(told["module"]), told["name"])(**told["settings"])
    _set(scheduler, told["numbers"])
    return scheduler


def _settings(scheduler: Any) -> dict[str, Any]:
    kind: Any = plain_class(scheduler)
    known = inspect.signature(kind.__init__).parameters
    return {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in scheduler.config.items()
        if name in known
    }


def _numbers(scheduler: Any) -> dict[str, Any]:
    """Return the numbers and tensors (on the CPU) that a scheduler shows to everybody."""
    import numpy as np
    import torch

    found = {}
    for name, value in vars(scheduler).items():
        number = torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value
        number = number.detach().cpu() if isinstance(number, torch.Tensor) else number
        if isinstance(number, torch.Tensor | int | float) and not isinstance(number, bool) and name[0] != "_":
            found[name] = number
    return found


def _equal(one: Any, other: Any) -> bool:
    import torch

    own, usual = (torch.as_tensor(each, dtype=torch.float64) for each in (one, other))
    return own.shape == usual.shape and torch.allclose(own, usual, rtol=0.0, atol=0.0, equal_nan=True)


def _set(scheduler: Any, numbers: Mapping[str, Any]) -> None:
    import numpy as np

    for name, number in numbers.items():
        array = isinstance(getattr(scheduler, name, None), np.ndarray)
        setattr(scheduler, name, number.numpy() if array else number)
