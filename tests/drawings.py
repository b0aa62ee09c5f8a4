"""The drawings that the model `shapes` is trained on, and the programs that train it, for tests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pytest_sdperf.core.scenes import Scene

TRAINING = Path(__file__).parent.parent / "training"
if str(TRAINING) not in sys.path:
    sys.path.append(str(TRAINING))


def drawn(scenes: Sequence[Scene], *, seed: int = 0) -> np.ndarray[Any, Any]:
    """Draw scenes: float32 [N, 3, 128, 128] in [-1, 1]."""
    import torch
    from drawing import SceneTable, draw

    return draw(SceneTable.of(scenes, "cpu"), torch.Generator().manual_seed(seed)).numpy()


def some_scenes(scenes: Sequence[Scene], count: int, *, seed: int = 0) -> list[Scene]:
    """Return scenes that chance chooses."""
    return [scenes[index] for index in np.random.default_rng(seed).integers(0, len(scenes), count)]
