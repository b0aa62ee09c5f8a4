"""Run a case in several dtypes, one after the other, in one process: references and plain runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.core.components import PIPELINE, component_dtype
from pytest_sdperf.core.values import roundings
from pytest_sdperf.tasks import TaskContext, component, pipeline


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Run the case once per dtype, or once per rounding in it.

    Args:
        arguments: As for the `run` of `tasks.component` or `tasks.pipeline`, with `dtypes`: dtypes, each
            with the number of a rounding where it has one (`roundings.labels`).
        context: The task's context.

    Returns:
        Dtype as it was asked for -> path of the npz file with the outputs.
    """
    task = pipeline if arguments["component"] == PIPELINE else component
    paths = {}
    for label in arguments["dtypes"]:
        dtype, rounding = roundings.parse(label)
        folder = context.out_dir / label
        folder.mkdir()
        own = dataclasses.replace(context, out_dir=folder)
        job = {**in_dtype(arguments, dtype, context), "rounding": rounding}
        paths[label] = task.run(job, own)["outputs"]
    return paths


def in_dtype(arguments: Mapping[str, Any], dtype: str, context: TaskContext) -> dict[str, Any]:
    """Return the arguments of the same task in another dtype."""
    model = context.catalog.models.get(arguments["model"])
    parts = {
        name: {**part, "build": {**part["build"], "dtype": component_dtype(model, name, dtype)}}
        for name, part in arguments["components"].items()
    }
    return {**arguments, "components": parts, "dtype": dtype}
