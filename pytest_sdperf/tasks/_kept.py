"""What a request keeps of its way, for a comparison: the latents of every step, the range of every output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_sdperf.core.components import LATENTS, RANGE
from pytest_sdperf.tasks.request.prompts import Call


class Ranges:
    """Watches what components put out, call by call."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, int, int]]] = {}

    def watched(self, component: str, call: Call) -> Call:
        """Return a call that is looked at."""
        seen = self._seen.setdefault(component, [])

        def look(inputs: dict[str, Any]) -> dict[str, Any]:
            outputs = call(inputs)
            seen.append(_range_of(outputs.values()))
            return outputs

        return look

    def arrays(self) -> dict[str, Any]:
        """Return `range.COMPONENT` -> per call the largest finite magnitude, values not finite, and all (calls, 3)."""
        import numpy as np

        return {f"{RANGE}{name}": np.array(seen, dtype=np.float64) for name, seen in self._seen.items()}


class Held:
    """Holds what was returned, beside copies: what a later call writes into is no result any more."""

    MOST = 8
    """Outputs of one component that are held, of the first calls: those of a whole request would fill the memory."""

    def __init__(self) -> None:
        self._arrays: list[tuple[str, Any, Any]] = []
        self._calls: dict[str, int] = {}

    def watched(self, component: str, call: Call) -> Call:
        """Return a call of a component whose first outputs are held."""

        def hold(inputs: dict[str, Any]) -> dict[str, Any]:
            outputs = call(inputs)
            self._calls[component] = self._calls.get(component, 0) + 1
            if self._calls[component] <= self.MOST:
                for name, tensor in outputs.items():
                    self.hold(f"{component}.{name}", tensor)
            return outputs

        return hold

    def hold(self, name: str, tensor: Any) -> None:
        """Hold a tensor."""
        self._arrays.append((name, tensor, on_host(tensor).copy()))

    def keep(self, outputs: dict[str, Any]) -> None:
        """Hold outputs that are arrays."""
        self._arrays += [(name, array, array.copy()) for name, array in outputs.items()]

    def changed(self) -> list[str]:
        """Return the names of the outputs that are not any more what they were, sorted."""
        return sorted({name for name, held, copy in self._arrays if not _same(held, copy)})


def _same(held: Any, copy: Any) -> bool:
    import numpy as np

    now = held if isinstance(held, np.ndarray) else on_host(held)
    return bool(np.array_equal(now, copy, equal_nan=True))


class CallInputs:
    """Keeps what components are given in one of their calls."""

    def __init__(self, wanted: Mapping[str, int]) -> None:
        """Begin.

        Args:
            wanted: Component -> number of the call, from 1.
        """
        self._wanted, self._calls = wanted, dict.fromkeys(wanted, 0)
        self.kept: dict[str, dict[str, Any]] = {}

    def watched(self, component: str, call: Call) -> Call:
        """Return a call that is looked at."""

        def look(inputs: dict[str, Any]) -> dict[str, Any]:
            self._calls[component] += 1
            if self._calls[component] == self._wanted[component]:
                self.kept[component] = {name: on_host(tensor).copy() for name, tensor in inputs.items()}
            return call(inputs)

        return look if component in self._wanted else call


def _range_of(tensors: Iterable[Any]) -> tuple[float, int, int]:
    import torch

    largest, bad, size = 0.0, 0, 0
    for tensor in tensors:
        finite = torch.isfinite(tensor)
        largest = max(largest, float(torch.where(finite, tensor, 0).abs().max()))
        bad, size = bad + int((~finite).sum()), size + tensor.numel()
    return largest, bad, size


def on_host(tensor: Any) -> Any:
    """Return a tensor as a numpy array; numpy has no bfloat16, and float32 holds all of its values."""
    import torch

    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


class StepLatents:
    """Keeps the latents of every step on the host: what a pipeline calls after each UNet call."""

    def __init__(self) -> None:
        self._latents: list[Any] = []

    def __call__(self, index: int, timestep: float, latents: Any) -> None:
        """Keep the latents after one UNet call; what follows may work in place."""
        self._latents.append(on_host(latents).copy())

    def arrays(self) -> dict[str, Any]:
        """Return `step_latents` (UNet calls, N, 4, H/8, W/8); nothing where no step was told of."""
        import numpy as np

        return {LATENTS: np.stack(self._latents)} if self._latents else {}
