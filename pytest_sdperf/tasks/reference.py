"""Run a case in several floating types, one after the other, in one process: references and yardsticks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_sdperf import roundings
from pytest_sdperf.components import PIPELINE, component_floating
from pytest_sdperf.tasks import TaskContext, component, pipeline


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Run the case once per floating type, or once per rounding in it.

    Args:
        arguments: As for the `run` of `tasks.component` or `tasks.pipeline`, with `floatings`: floating types, each
            with the number of a rounding where it has one (`roundings.labels`).
        context: The task's context.

    Returns:
        Floating type as it was asked for -> path of the npz file with the outputs.
    """
    task = pipeline if arguments["component"] == PIPELINE else component
    model = context.catalog.models.get(arguments["model"])
    paths = {}
    for label in arguments["floatings"]:
        floating, rounding = roundings.parse(label)
        parts = {
            name: {**part, "build": {**part["build"], "floating": component_floating(model, name, floating)}}
            for name, part in arguments["components"].items()
        }
        folder = context.out_dir / label
        folder.mkdir()
        own = dataclasses.replace(context, out_dir=folder)
        job = {**arguments, "components": parts, "floating": floating, "rounding": rounding}
        paths[label] = task.run(job, own)["outputs"]
    return paths
