"""Run a case in several floating types, one after the other, in one process: references and yardsticks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.core.components import PIPELINE, component_floating
from pytest_sdperf.core.values import roundings
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
    paths = {}
    for label in arguments["floatings"]:
        floating, rounding = roundings.parse(label)
        folder = context.out_dir / label
        folder.mkdir()
        own = dataclasses.replace(context, out_dir=folder)
        job = {**in_floating(arguments, floating, context), "rounding": rounding}
        paths[label] = task.run(job, own)["outputs"]
    return paths


def in_floating(arguments: Mapping[str, Any], floating: str, context: TaskContext) -> dict[str, Any]:
    """Return the arguments of the same task in another floating type."""
    model = context.catalog.models.get(arguments["model"])
    parts = {
        name: {**part, "build": {**part["build"], "floating": component_floating(model, name, floating)}}
        for name, part in arguments["components"].items()
    }
    return {**arguments, "components": parts, "floating": floating}
