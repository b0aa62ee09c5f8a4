"""A kernel of ONNX Runtime's CUDA provider that overflows on Stable Diffusion 2.1; shared by its engines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_sdperf.contracts import LoadRequest

_TRT_FLASH = "ORT_DISABLE_TRT_FLASH_ATTENTION"


@contextmanager
def avoided(request: LoadRequest) -> Iterator[None]:
    """Do without TensorRT's flash attention for a component whose attention does not fit float16, such as SD2.1's UNet.

    Its images were black with it. ONNX Runtime takes it where its own does not serve, and reads the variable when a
    session is made.
    """
    before = os.environ.get(_TRT_FLASH)
    if request.model.config(request.component).get("upcast_attention"):
        os.environ[_TRT_FLASH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_TRT_FLASH, None)
        if before is not None:
            os.environ[_TRT_FLASH] = before
