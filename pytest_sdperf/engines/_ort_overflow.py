"""A kernel of ONNX Runtime's CUDA provider that overflows on Stable Diffusion 2.1; shared by its engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.engines._environment import variable

_TRT_FLASH = "ORT_DISABLE_TRT_FLASH_ATTENTION"


@contextmanager
def avoided(request: LoadRequest) -> Iterator[None]:
    """Do without TensorRT's flash attention for a component whose attention does not fit float16, such as SD2.1's UNet.

    Its images were black with it. ONNX Runtime takes it where its own does not serve, and reads the variable when a
    session is made.
    """
    overflows = request.model.config(request.component).get("upcast_attention")
    with variable(_TRT_FLASH, "1") if overflows else nullcontext():
        yield
