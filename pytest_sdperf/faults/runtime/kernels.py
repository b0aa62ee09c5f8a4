"""Faults of kernels: the graph is right and the outputs agree, and one block inside gives something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.faults.fault import FAILED, Detection, Fault, FaultStage
from pytest_sdperf.faults.wanted import UNET

if TYPE_CHECKING:
    import onnx_ir as ir

_BLOCK, _FACTOR = "unet.mid_block.resnets.1", 1.01
_HALF = f"--model=shapes --component={UNET} --optimization=fp16 --engine="


def in_module(runner: Runner) -> Runner:
    """Let a block of a loaded torch module give 1 % too much."""
    vars(runner)["_module"].get_submodule(_BLOCK).register_forward_hook(lambda _, __, made: made * _FACTOR)
    return runner


def in_session(runner: Runner) -> Runner:
    """Let ONNX Runtime compute what a block gives 1 % too large: it loads another graph than the build."""
    import onnx_ir as ir
    import onnxruntime

    own = vars(runner)
    request, session = own["_request"], own["_session"]
    model = ir.load(request.build.path)
    _enlarge(model.graph, request.build.dtype)
    path = request.work_dir / "planted.onnx"
    ir.save(model, path, external_data="planted.onnx.data")
    other = onnxruntime.InferenceSession(str(path), session.get_session_options(), providers=session.get_providers())
    make: Any = type(runner)
    planted: Runner = make(other, request, memory=own["_memory"], facts=own["_facts"])
    return planted


def _enlarge(graph: ir.Graph, dtype: str) -> None:
    """Multiply what a block gives, under its own name."""
    import numpy as np
    import onnx_ir as ir

    from pytest_sdperf.fusing.fusion_graph import path_of

    node = [one for one in graph if f"{path_of(one)}.".startswith(f"{_BLOCK}.")][-1]
    value = node.outputs[0]
    factor = ir.Value(name="planted_factor", const_value=ir.tensor(np.array(_FACTOR, dtype), name="planted_factor"))
    graph.register_initializer(factor)
    product = ir.node("Mul", [value, factor], name="planted_product")
    graph.insert_after(node, product)
    for user, index in list(value.uses()):
        if user is not product:
            user.replace_input_with(index, product.outputs[0])
    graph.outputs[:] = [product.outputs[0] if one is value else one for one in graph.outputs]
    name, value.name = value.name, f"{value.name}_before"
    product.outputs[0].name = name


_FOUND = Detection(
    "agreement", FAILED,
    "mid_block.resnets.1 of the unet is computed wrong, though the outputs agree: from what the engine itself has "
    "before it, relative L2 error # against torch float32; plain torch float16 has # in the worst of # roundings, so "
    "at most # passes. # of # blocks could be compared.",
    "joints",
)  # fmt: skip
FAULTS = (
    Fault(
        "runtime-kernel-one-percent-high",
        "One kernel in the middle of the UNet gives 1 % too much, and half precision hides it at the outputs.",
        FaultStage.RUNNER, in_session, _FOUND, UNET, f"{_HALF}ort-cpu",
    ),
    Fault(
        "runtime-module-one-percent-high",
        "One block in the middle of the UNet gives 1 % too much, and half precision hides it at the outputs.",
        FaultStage.RUNNER, in_module, _FOUND, UNET, f"{_HALF}torch",
    ),
)  # fmt: skip
