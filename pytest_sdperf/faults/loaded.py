"""A loaded component with a fault in it: the same runner, but for what the fault changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Arrays, ComponentFacts, Runner
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.recipe import ModuleRecipe, SessionRecipe

if TYPE_CHECKING:
    import numpy as np
    import torch

    Changed = dict[str, np.ndarray[Any, Any]]

Change = Callable[["Changed", int], "Changed"]


class Passing(Runner):
    """Passes everything on to another runner; faults override what they change."""

    def __init__(self, inner: Runner) -> None:
        self.inner = inner

    def bind(self, inputs: Arrays) -> None:
        """Pass on."""
        self.inner.bind(inputs)

    def run(self) -> None:
        """Pass on."""
        self.inner.run()

    def run_plainly(self) -> None:
        """Run as ever: a fault is no property of a captured graph."""
        self.run()

    def synchronize(self) -> None:
        """Pass on."""
        self.inner.synchronize()

    def fetch(self) -> Changed:
        """Pass on."""
        return self.inner.fetch()

    def resize(self, workload: Workload) -> None:
        """Pass on."""
        self.inner.resize(workload)

    @contextlib.contextmanager
    def inside(self, *, blocks: bool = False) -> Iterator[Changed]:
        """Pass on."""
        with self.inner.inside(blocks=blocks) as found:
            yield found

    def recipe(self) -> SessionRecipe | ModuleRecipe | None:
        """Pass on."""
        return self.inner.recipe()

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Pass on."""
        return self.inner.call(inputs)

    def enter(self, phase: str) -> None:
        """Pass on."""
        self.inner.enter(phase)

    def leave(self, phase: str) -> None:
        """Pass on."""
        self.inner.leave(phase)

    def allocator_peak_bytes(self, *, reset: bool) -> int | None:
        """Pass on."""
        return self.inner.allocator_peak_bytes(reset=reset)

    def facts(self) -> ComponentFacts:
        """Pass on."""
        return self.inner.facts()


class Answering(Passing):
    """Changes inputs on their way in, and outputs on their way out.

    Args:
        inner: The runner.
        before, after: Take arrays by name and the number of the call, from 1 on, and return new arrays.
    """

    def __init__(self, inner: Runner, *, before: Change | None = None, after: Change | None = None) -> None:
        super().__init__(inner)
        self._before, self._after, self._calls = before, after, 0

    def bind(self, inputs: Arrays) -> None:
        """Bind what the fault makes of the inputs."""
        self.inner.bind(self._before(dict(inputs), self._calls + 1) if self._before else inputs)

    def run(self) -> None:
        """Count the call."""
        self._calls += 1
        self.inner.run()

    def fetch(self) -> Changed:
        """Return what the fault makes of the outputs."""
        outputs = self.inner.fetch()
        return self._after(outputs, self._calls) if self._after else outputs

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Do the same on tensors."""
        self._calls += 1
        given = _on_tensors(inputs, self._before, self._calls)
        return _on_tensors(self.inner.call(given), self._after, self._calls)


def answering(*, before: Any = None, after: Change | None = None) -> Callable[[Runner], Runner]:
    """Return what changes inputs or outputs; a class keeps state, and each runner has its own."""

    def plant(runner: Runner) -> Runner:
        return Answering(runner, before=before() if isinstance(before, type) else before, after=after)

    return plant


def _on_tensors(tensors: Mapping[str, torch.Tensor], change: Change | None, call: int) -> dict[str, torch.Tensor]:
    import torch

    if change is None:
        return dict(tensors)
    arrays = {name: _array(tensor) for name, tensor in tensors.items()}
    return {
        name: torch.from_numpy(array).to(device=tensors[name].device, dtype=tensors[name].dtype)
        for name, array in change(arrays, call).items()
    }


def _array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    import torch

    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy().copy()


class Telling(Passing):
    """Changes what the runner says about what ran.

    Args:
        inner: The runner.
        told: What it says beside, or instead.
    """

    def __init__(self, inner: Runner, told: ComponentFacts) -> None:
        super().__init__(inner)
        self._told = told

    def facts(self) -> ComponentFacts:
        """Return the facts with those of the fault."""
        return {**self.inner.facts(), **self._told}


class Calling(Passing):
    """Does something round every call.

    Args:
        inner: The runner.
        around: A context that each call is made in.
    """

    def __init__(self, inner: Runner, around: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        super().__init__(inner)
        self._around = around

    def run(self) -> None:
        """Call inside the context."""
        with self._around():
            self.inner.run()
            self.inner.synchronize()

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Call inside the context."""
        with self._around():
            return self.inner.call(inputs)


@contextlib.contextmanager
def before(act: Callable[[], None]) -> Iterator[None]:
    """Return a context that acts before what is inside."""
    act()
    yield


def acting(act: Callable[[], None]) -> Callable[[Runner], Runner]:
    """Return what acts before every call."""
    return lambda runner: Calling(runner, lambda: before(act))
