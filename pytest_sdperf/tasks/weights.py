"""Write the weights of one component as safetensors: drawn from a seed, or taken from a diffusers folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.tasks import TaskContext

FILE = "weights.safetensors"


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Write `weights.safetensors` (float32) into the task's folder.

    Args:
        arguments: `model` and `component`; `folder`: a local diffusers folder or empty; `seed`: for an empty folder;
            `cache_dir`: the cache folder, for messages.
        context: The task's context.

    Returns:
        `seconds` and `cpu_seconds` that writing took.

    Raises:
        WeightsError: The folder lacks the component, holds pickles only or does not fit the model.
        CacheError: The disk is full or read-only.
    """
    model = context.catalog.models.get(arguments["model"])
    component = arguments["component"]
    path = context.out_dir / FILE
    watch = Stopwatch()
    with disk_errors(context.cache_dir):
        if arguments["folder"]:
            context.say(f"reading the weights of {model.name} {component}")
            model.import_weights(component, Path(arguments["folder"]), path)
        else:
            context.say(f"drawing the weights of {model.name} {component}")
            model.draw_weights(component, path, seed=arguments["seed"])
    return watch.took()
