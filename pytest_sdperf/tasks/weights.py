"""Write the weights of one component as safetensors: drawn from a seed, or taken from a diffusers folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.clock import Stopwatch, Took
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.tasks import TaskContext

FILE = "weights.safetensors"


@dataclass(frozen=True)
class WriteWeights:
    """The weights of one component.

    Attributes:
        model: Catalog name.
        component: One of the model's components.
        folder: A local diffusers folder; None to draw them.
        seed: To draw them from.
    """

    model: str
    component: str
    folder: Path | None = None
    seed: int = 0


def run(request: WriteWeights, context: TaskContext) -> Took:
    """Write `weights.safetensors` (float32) into the task's folder.

    Raises:
        WeightsError: The folder lacks the component, holds pickles only or does not fit the model.
        CacheError: The disk is full or read-only.
    """
    model, component = context.catalog.models.get(request.model), request.component
    path = context.out_dir / FILE
    watch = Stopwatch()
    with disk_errors(context.cache_dir):
        if request.folder is not None:
            context.say(f"reading the weights of {model.name} {component}")
            model.import_weights(component, request.folder, path)
        else:
            context.say(f"drawing the weights of {model.name} {component}")
            model.draw_weights(component, path, seed=request.seed)
    return watch.took()
