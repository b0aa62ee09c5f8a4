"""Sessions of engines: what they ask of onnxruntime's process-wide logger ends with each test."""

from __future__ import annotations

import onnxruntime
import pytest

from pytest_sdperf.engines import _ort_log


@pytest.fixture(autouse=True)
def silent_arenas():
    """Have arenas say nothing afterwards: a session on a GPU, real or not, asks them to speak."""
    yield
    _ort_log.listen(onnxruntime, to_arenas=False)
