"""Run a case in several floating types, one after the other, in one process: references and yardsticks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.components import PIPELINE, component_floating
from pytest_sdperf.tasks import TaskContext, component, pipeline


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Run the case once per floating type.

    Args:
        arguments: As for the `run` of `tasks.component` or `tasks.pipeline`, with `floatings`.
        context: The task's context.

    Returns:
        Floating type -> path of the npz file with the outputs.
    """
    task = pipeline if arguments["component"] == PIPELINE else component
    model = context.catalog.models.get(arguments["model"])
    paths = {}
    for floating in arguments["floatings"]:
        parts = {
            name: {**part, "build": {**part["build"], "floating": component_floating(model, name, floating)}}
            for name, part in arguments["components"].items()
        }
        folder = context.out_dir / floating
        folder.mkdir()
        own = dataclasses.replace(context, out_dir=folder)
        paths[floating] = task.run({**arguments, "components": parts, "floating": floating}, own)["outputs"]
    return paths
