"""Write the tokenizers of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.tasks import TaskContext


@dataclass(frozen=True)
class WriteTokenizers:
    """The tokenizers of one model.

    Attributes:
        model: Catalog name.
        folder: A local diffusers folder; tokenizers that it lacks, without one all of them, are generated.
    """

    model: str
    folder: Path | None = None


def run(request: WriteTokenizers, context: TaskContext) -> dict[str, Any]:
    """Write one sub-folder per tokenizer into the task's folder; there is nothing to answer."""
    context.catalog.models.get(request.model).write_tokenizers(context.out_dir, weights=request.folder)
    return {}
