"""Convolutions of half precision under onnxruntime's `use_tf32`, which is about single precision by its name.

    python convolutions_without_tensor_cores.py [--provider=CUDAExecutionProvider]

Needs onnx, numpy and onnxruntime-gpu. Each line is one convolution of a shape like those of Stable Diffusion's VAE
decoder and of SDXL's UNet, as many channels out as in, in milliseconds with TF32 allowed and forbidden. The exit status
is 1 where forbidding it makes one three times slower, else 0.
"""

import argparse
import contextlib
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Images, channels, side of the image, side of the filter.
SHAPES = ((1, 256, 512, 3), (1, 512, 64, 3), (1, 512, 256, 3), (2, 320, 128, 3), (2, 320, 128, 1), (2, 640, 64, 3))
SLOWER = 3
CALLS = 20


def model(images, channels, side, kernel):
    """One Conv without bias that keeps the size of its image."""
    shape = (images, channels, side, side)
    filters = np.full((channels, channels, kernel, kernel), 0.01, np.float16)
    node = helper.make_node("Conv", ["image", "filters"], ["output"], pads=[kernel // 2] * 4)
    graph = helper.make_graph(
        [node],
        "convolution",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT16, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT16, shape)],
        [numpy_helper.from_array(filters, "filters")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(made)
    return made.SerializeToString(), shape


def milliseconds(made, shape, provider, options):
    """Time calls whose image and output stay on the device; return the fastest."""
    import onnxruntime

    device = "cuda" if provider == "CUDAExecutionProvider" else "cpu"
    session = onnxruntime.InferenceSession(made, providers=[(provider, options)])
    binding = session.io_binding()
    image = onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(shape, np.float16), device, 0)
    binding.bind_ortvalue_input("image", image)
    binding.bind_output("output", device)
    session.run_with_iobinding(binding)
    times = []
    for _ in range(CALLS):
        start_s = time.perf_counter()
        session.run_with_iobinding(binding)
        times.append((time.perf_counter() - start_s) * 1e3)
    return min(times)


def main():
    """Time every convolution both ways; return whether one gets slower."""
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 (it brings the CUDA libraries)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", default="CUDAExecutionProvider")
    provider = parser.parse_args().provider
    any_slower = False
    for images, channels, side, kernel in SHAPES:
        made, shape = model(images, channels, side, kernel)
        on, off = (
            milliseconds(made, shape, provider, {"use_tf32": value} if provider == "CUDAExecutionProvider" else {})
            for value in "10"
        )
        slower = off > SLOWER * on
        any_slower = any_slower or slower
        print(
            f"{images} x {channels} channels, {side}x{side}, filter {kernel}x{kernel}: "
            f"use_tf32=1 {on:.3f} ms, use_tf32=0 {off:.3f} ms{'  SLOWER' if slower else ''}"
        )
    return any_slower


if __name__ == "__main__":
    sys.exit(main())
