"""The denoising schedulers: diffusers' own classes with the configuration that a model was released with."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.core.errors import UnknownNameError

SCHEDULERS: Mapping[str, tuple[str, str]] = {
    "pndm": ("scheduling_pndm", "PNDMScheduler"),
    "ddim": ("scheduling_ddim", "DDIMScheduler"),
    "euler": ("scheduling_euler_discrete", "EulerDiscreteScheduler"),
    "unipc": ("scheduling_unipc_multistep", "UniPCMultistepScheduler"),
}


def make_scheduler(name: str, config: Mapping[str, Any]) -> Any:
    """Return a scheduler; settings of `config` that its class does not know are left out, as diffusers does.

    Only the module of this one scheduler is imported: `import diffusers.schedulers` as a whole costs seconds.

    Raises:
        UnknownNameError: With the list of schedulers.
    """
    if name not in SCHEDULERS:
        raise UnknownNameError("scheduler", name, SCHEDULERS)
    module, class_name = SCHEDULERS[name]
    scheduler = getattr(importlib.import_module(f"diffusers.schedulers.{module}"), class_name)
    known = inspect.signature(scheduler.__init__).parameters
    return scheduler(**{key: value for key, value in config.items() if key in known})


def scheduler_name(scheduler: Any) -> str:
    """Return the name of a scheduler, or its class where that is none of `SCHEDULERS`."""
    kind = type(scheduler).__name__
    return next((name for name, (_, known) in SCHEDULERS.items() if known == kind), kind)
