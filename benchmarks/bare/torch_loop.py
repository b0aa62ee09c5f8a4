"""A loop over a diffusers UNet, as anybody would write it: prints the milliseconds of every call as JSON.

    python benchmarks/bare/torch_loop.py config.json weights.safetensors inputs.npz float16 cuda

On a GPU the time is the one between two CUDA events around all calls, divided by their number.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import load_file

WARM_UP, TIMED = 4, 20

config, weights, inputs, dtype, device = sys.argv[1:]
dtype = getattr(torch, dtype)
torch.backends.cudnn.allow_tf32 = False
module = UNet2DConditionModel.from_config(json.loads(Path(config).read_text(encoding="utf-8")))
module.load_state_dict(load_file(weights))
module = module.to(device, dtype).eval()
tensors = {name: torch.from_numpy(array).to(device) for name, array in np.load(inputs).items()}
tensors = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
sample, timestep, states = (tensors.pop(name) for name in ("sample", "timestep", "encoder_hidden_states"))


def call() -> None:
    """Run the UNet once."""
    module(sample, timestep, states, added_cond_kwargs=tensors or None, return_dict=False)


with torch.inference_mode():
    for _ in range(WARM_UP):
        call()
    if device == "cpu":
        milliseconds = []
        for _ in range(TIMED):
            start_s = time.perf_counter()
            call()
            milliseconds.append((time.perf_counter() - start_s) * 1e3)
    else:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(TIMED):
            call()
        end.record()
        end.synchronize()
        milliseconds = [begin.elapsed_time(end) / TIMED]
print(json.dumps(milliseconds))
