"""Count what one call of a component has to compute and to move, on torch's meta device: nothing is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.values import TensorSpec, Workload
from pytest_sdperf.core.values.floor import Kernel, Work
from pytest_sdperf.tasks import TaskContext

if TYPE_CHECKING:
    import torch

Counted = Counter[tuple[str, int, int]]


@dataclass(frozen=True)
class CountWork:
    """What is counted: one call of a component at the shapes of a workload."""

    model: str
    component: str
    workload: Workload


def run(request: CountWork, context: TaskContext) -> Work:
    """Count the work of one call."""
    model = context.catalog.models.get(request.model)
    context.say(f"counting the operations of {model.name} {request.component}")
    return count(model, request.component, request.workload)


def count(model: Model, component: str, workload: Workload) -> Work:
    """Return the work of one call of a component at the shapes of a workload."""
    import torch

    module = model.module(component, weights=None).eval().to("meta")
    specs = model.inputs(component, workload)
    with torch.no_grad():
        kernels = _kernels(module, [_empty(spec) for spec in specs])
    return Work(
        kernels=tuple(Kernel(*key, launches=launches) for key, launches in sorted(kernels.items())),
        weights=_weights(module),
        tensors=sum(_empty(spec).numel() for spec in (*specs, *model.outputs(component, workload))),
    )


def _weights(module: torch.nn.Module) -> int:
    """Return the elements of the weights that a call reads: of a table of embeddings it reads a few rows."""
    import torch

    tables = {id(child.weight) for child in module.modules() if isinstance(child, torch.nn.Embedding)}
    return sum(parameter.numel() for parameter in module.parameters() if id(parameter) not in tables)


def _empty(spec: TensorSpec) -> torch.Tensor:
    import torch

    dtype = getattr(torch, "float32" if spec.dtype == "float" else spec.dtype)
    return torch.empty(spec.shape, dtype=dtype, device="meta")


def _kernels(module: torch.nn.Module, inputs: list[torch.Tensor]) -> Counted:
    """Run the module on tensors without content, and count by kind, operations and elements."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry, sdpa_flop_count

    counted: Counted = Counter()
    flops_of_attention: Callable[..., int] = sdpa_flop_count

    class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """Counts every operator for which torch knows a number of operations."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            formula = flop_registry.get(func.overloadpacket)
            if formula is not None:
                kind = "convolution" if func.overloadpacket is torch.ops.aten.convolution else "product"
                moved = sum(each.numel() for each in (*args, result) if isinstance(each, torch.Tensor))
                counted[kind, int(formula(*args, **kwargs, out_val=result)), moved] += 1
            return result

    class Attentions(TorchFunctionMode):
        """Takes an attention as the one kernel that it can be, instead of two products with a matrix between them."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not torch.nn.functional.scaled_dot_product_attention:
                return func(*args, **(kwargs or {}))
            named = kwargs or {}
            query, key, value = (*args, *(named[name] for name in ("query", "key", "value")[len(args) :]))[:3]
            result = query.new_empty((*query.shape[:-1], value.shape[-1]))
            operations = flops_of_attention(query.shape, key.shape, value.shape)
            counted["attention", int(operations), sum(each.numel() for each in (query, key, value, result))] += 1
            return result

    with Products(), Attentions():  # type: ignore[no-untyped-call]
        module(*inputs)
    return counted
