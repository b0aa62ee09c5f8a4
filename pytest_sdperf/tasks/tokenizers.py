"""Write the tokenizers of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.tasks import TaskContext


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Write one sub-folder per tokenizer into the task's folder.

    Args:
        arguments: `model`; `folder`: a local diffusers folder or empty.
        context: The task's context.

    Returns:
        `folders`: names of the sub-folders.
    """
    model = context.catalog.models.get(arguments["model"])
    folder = Path(arguments["folder"]) if arguments["folder"] else None
    return {"folders": list(model.write_tokenizers(context.out_dir, weights=folder))}
