"""Modules and graphs of the released sizes without a byte of their weights: only what they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.errors import BuildError

if TYPE_CHECKING:
    import torch


def hollow(module: torch.nn.Module, what: str) -> None:
    """Give a module parameters that hold nothing, on the CPU: on the meta device torch traces other operators.

    Args:
        module: A module whose parameters may be on the meta device.
        what: How to name it in an error.

    Raises:
        BuildError: One of its buffers has no values.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    lost = sorted(name for name, buffer in module.named_buffers() if buffer.is_meta)
    if lost:
        raise BuildError(
            f"buffers of {what} have no values without weights: {', '.join(lost)}. `module` of the model must fill "
            f"what no weights file stores, also when it is called with weights=None."
        )
    parts: list[torch.nn.Module] = list(module.modules())
    hollows: dict[int, torch.nn.Parameter] = {}  # a parameter that two parts share stays shared
    with FakeTensorMode(allow_non_fake_inputs=True):
        for part in parts:
            for name, parameter in list(part.named_parameters(recurse=False)):
                if id(parameter) not in hollows:
                    empty = torch.empty(parameter.shape, dtype=parameter.dtype)
                    hollows[id(parameter)] = torch.nn.Parameter(empty, requires_grad=False)
                setattr(part, name, hollows[id(parameter)])


def optimize(program: Any) -> None:
    """Do what the exporter does to a graph after translating it, for a graph whose weights hold nothing.

    Afterwards weights have no data, as `fusing.weightless` says, and everything else has.

    Args:
        program: The ONNX program of a hollow module, not optimized.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    from pytest_sdperf.fusing import placeholders

    tensors = {name: value.const_value for name, value in program.model.graph.initializers.items()}
    names = [name for name, tensor in tensors.items() if isinstance(getattr(tensor, "raw", None), FakeTensor)]
    placeholders.fill(program.model.graph, names)
    program.optimize()
    placeholders.clear(program.model.graph)
