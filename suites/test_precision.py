"""What does half precision change?

Each test makes one picture twice, from the same prompt and the same latents, in float32 and in half precision, and
compares the latents after every denoising step. How far torch may drift follows from the size of a rounding error; an
engine may drift at most twice as far as torch. `--sdperf-images=FOLDER` shows both pictures at every step.
"""

import pytest


@pytest.mark.sdperf(components="pipeline", engines="torch", optimizations="fp32")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_torch_drifts_no_further_than_rounding_explains(runner, dtype, drift):
    drift(runner, dtype)


@pytest.mark.sdperf(components="pipeline")
def test_engine_drifts_no_further_than_torch(runner, drift):
    drift(runner)
