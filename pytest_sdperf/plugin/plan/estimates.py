"""What a build or a case costs where nobody has measured it: sizes times a few numbers, each with its origin.

They were measured on 27 and 28 November 2026, on two cores of an AMD EPYC (narrow models) and on an H200 with 16 cores
(full size), and are meant to be right within a factor of two. docs/plan.md has them in words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_sdperf.core.components import PIPELINE, component_dtype, parts_of
from pytest_sdperf.core.contracts import Engine, Model
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.machine.gpu_facts import GpuFacts, load_gpus, to_slug
from pytest_sdperf.core.values import Case
from pytest_sdperf.tasks.sampling.timing import TimingPlan

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_GB = 1e9
# Step of a build -> seconds, and seconds per GB of float32 weights. An export takes 20 s for a narrow UNet, 33 s for
# that of sd15 and 148 s for that of sdxl; onnxruntime's optimizer 10 s and 170 s for the first two.
STEP_S: Mapping[str, tuple[float, float]] = {
    "weights": (8.0, 6.0),
    "export": (18.0, 10.0),
    "import": (1.0, 1.0),
    "fuse-native": (1.0, 2.0),
    "fuse-ort": (10.0, 50.0),
    "lower": (1.0, 1.0),
    "expect": (10.0, 0.0),
}
_SHRINKING = frozenset({"fuse-native", "fuse-ort", "lower"})  # the others hold float32
# Until a process can load: onnxruntime alone; torch with diffusers and transformers.
START_S, TORCH_START_S = 0.5, 6.0
LOAD_S_PER_GB = 1.0
# The search for convolution algorithms in the first run on a GPU.
SEARCH_S = 3.0
# torch.compile of a UNet: 69 to 92 s for sd15, 111 to 145 s for sdxl, in float16.
COMPILE_S, COMPILE_S_PER_GB = 40.0, 20.0
# FLOP per parameter and latent pixel: 0.228, 0.270 and 0.161 for the UNets of sd15, sd21 and sdxl; 12.5 for a decoder.
_WORK = {"unet": 0.22, "vae_decoder": 12.5, "vae_encoder": 8.0}
_TOKENS = 77
# Share of the peak of the matrix units that a build reaches: 10 to 42 % in float16, 2 % in float32 without TF32.
_REACHED = {"float16": 0.15, "float32": 0.02}
_UNKNOWN_GPU_FLOPS = 100e12
CPU_FLOPS_PER_CORE = 10e9
# Device memory of sd15 on an H200, 2.7 to 31 GB, is met within a third by these.
_CONTEXT_BYTES = 0.6e9
_BYTES_PER_PIXEL = 40_000  # latent pixel and image, per byte of the dtype
_ATTENTIONS_ALIVE = 7  # score matrices of the largest attention, where none is fused


@dataclass(frozen=True)
class Speed:
    """What estimates need to know about a device.

    Attributes:
        kind: Kind of the device.
        flops: Peak of its matrix units in float16, or on a CPU what a build reaches.
    """

    kind: DeviceKind
    flops: float

    @classmethod
    def of(cls, kind: DeviceKind, slug: str, *, cores: int) -> Speed:
        """Return the speed of a device by its slug or family, or of some GPU where that is not known."""
        if kind == "cpu":
            return cls(kind, CPU_FLOPS_PER_CORE * cores)
        facts = card(slug)
        known = facts.fp16_tflops if facts else None
        return cls(kind, known * 1e12 if known else _UNKNOWN_GPU_FLOPS)

    def seconds(self, flop: float, dtype: str) -> float:
        """Return how long work takes."""
        reached = 1.0 if self.kind == "cpu" else _REACHED.get(dtype, _REACHED["float16"])
        return flop / (self.flops * reached)


def card(name: str) -> GpuFacts | None:
    """Return what is known about a card: that of a slug, or the first one of a family."""
    table, name = load_gpus(), to_slug(name)
    return table.facts(name) or next((gpu for gpu in table.gpus if gpu.family == name), None)


def step_seconds(step: str, parameters: int) -> float:
    """Return how long a step of a build takes."""
    fixed, per_gb = STEP_S[step]
    return fixed + per_gb * parameters * BYTES["float32"] / _GB


def step_bytes(step: str, parameters: int, dtype: str) -> float:
    """Return what a step of a build leaves on the disk."""
    if step == "expect":
        return 0.0
    return float(parameters * BYTES[dtype if step in _SHRINKING else "float32"])


def request_seconds(case: Case, model: Model, speed: Speed, *, dtype: str) -> float | None:
    """Return how long one call of a component, or one whole request, takes; None where nobody counted parameters."""
    counted = _counted(case, model)
    if counted is None:
        return None
    steps = {"unet": case.steps + 1} if case.component == PIPELINE else {}
    return sum(
        steps.get(name, 1) * speed.seconds(_flop(name, parameters, case), component_dtype(model, name, dtype))
        for name, parameters in counted.items()
    )


def process_seconds(plan: TimingPlan, call_s: float, *, weights_bytes: float, speed: Speed) -> float:
    """Return how long one process measures, from loading to its last call."""
    warm = 0 if plan.warmup_s == 0 else min(3, max(1, math.ceil(plan.warmup_s / call_s)))
    timed = min(plan.max_iterations, max(plan.min_iterations, math.ceil(plan.timed_s / call_s)))
    return first_seconds(call_s, weights_bytes=weights_bytes, speed=speed) + (1 + warm + timed) * call_s


def start_seconds(case: Case, engine: Engine) -> float:
    """Return how long a process takes until it can load."""
    return TORCH_START_S if engine.consumes == "module" or case.component == PIPELINE else START_S


def first_seconds(call_s: float, *, weights_bytes: float, speed: Speed) -> float:
    """Return how long loading and the first call take."""
    search_s = SEARCH_S if speed.kind != "cpu" else 0.0
    return LOAD_S_PER_GB * weights_bytes / _GB + search_s + call_s


def compile_seconds(weights_bytes: float) -> float:
    """Return how long a compiler takes."""
    return COMPILE_S + COMPILE_S_PER_GB * weights_bytes / _GB


def weights_bytes(case: Case, model: Model, *, dtype: str) -> float | None:
    """Return what the weights of a case take when they are loaded; None where nobody counted parameters."""
    counted = _counted(case, model)
    if counted is None:
        return None
    return float(sum(count * BYTES[component_dtype(model, name, dtype)] for name, count in counted.items()))


def gpu_bytes(case: Case, model: Model, *, dtype: str, fused: bool) -> float | None:
    """Return the device memory that a case needs; None where nobody counted parameters.

    Args:
        case: The case.
        model: Its model.
        dtype: Dtype of its weights.
        fused: Whether no attention writes its scores to memory.
    """
    weights = weights_bytes(case, model, dtype=dtype)
    if weights is None:
        return None
    images = 2 * case.batch_size
    needed = weights + _CONTEXT_BYTES + images * _pixels(case) * _BYTES_PER_PIXEL * BYTES[dtype]
    if not fused and case.component in {"unet", PIPELINE}:
        needed += _ATTENTIONS_ALIVE * images * _scores(case, model) * BYTES[dtype]
    return needed


def _counted(case: Case, model: Model) -> dict[str, int] | None:
    """Return the parameters of the parts of a case; None where nobody counted some, or knows the parts."""
    counts = {name: model.parameters(name) for name in parts_of(model, case.component)}
    known = {name: count for name, count in counts.items() if count is not None}
    return known if known and len(known) == len(counts) else None


def _pixels(case: Case) -> int:
    return (case.height // 8) * (case.width // 8)


def _flop(component: str, parameters: int, case: Case) -> float:
    if component in _WORK:
        images = 2 * case.batch_size if component == "unet" else case.batch_size
        return _WORK[component] * parameters * _pixels(case) * images
    return 2.0 * parameters * _TOKENS * 2 * case.batch_size


def _scores(case: Case, model: Model) -> float:
    """Return the elements of the score matrices of the UNet's largest self-attention, per image."""
    config = model.config("unet")
    largest = 0.0
    for level, block in enumerate(config.get("down_block_types", ())):
        if "CrossAttn" not in block:
            continue
        heads = config["attention_head_dim"]  # diffusers' name for the number of heads
        heads = heads[level] if isinstance(heads, (list, tuple)) else heads
        tokens = _pixels(case) // 4**level
        largest = max(largest, float(heads) * tokens**2)
    return largest
